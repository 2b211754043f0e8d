"""The `bookie` command line: one module per group of commands."""
