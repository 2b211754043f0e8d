"""Bytes of entries and runs: layout, building, parsing, checksums. No rule of a protocol."""
