"""Client shells round the protocol core: connections, ledgers, the log of ledgers."""
