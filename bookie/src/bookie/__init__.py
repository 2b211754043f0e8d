"""BookKeeper-compatible bookies, safe without a journal; their client, repair and audit."""
