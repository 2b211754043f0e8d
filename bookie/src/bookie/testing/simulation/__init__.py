"""Deterministic simulation of the real server, client and repair code; start at `world`."""
