"""The `bookie` command: hands over to the command line."""

from bookie.cli.main import main

if __name__ == "__main__":
    main()
