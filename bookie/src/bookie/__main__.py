"""`python -m bookie`: runs the `bookie` command (`cli.main`)."""

from bookie.cli.main import main

if __name__ == "__main__":
    main()
