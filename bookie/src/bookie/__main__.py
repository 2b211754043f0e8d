"""The `bookie` command: hands over to the command line."""
