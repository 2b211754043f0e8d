"""Who runs a command, for records of what a person decided."""

import getpass
import os


def user_name() -> str:
    """A container's user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
