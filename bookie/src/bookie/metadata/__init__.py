"""Ledger metadata, cookies and registrations: one compare-and-set interface, two stores."""
