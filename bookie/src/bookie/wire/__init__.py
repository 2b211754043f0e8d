"""Bytes on sockets to protocol events and back: no sockets here."""
