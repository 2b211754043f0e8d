"""Who runs a command, for records of what a person decided."""

import getpass
import os


def user_name() -> str:
    """Return the name of the user who runs this process, or `uid N` when it has none, as in a
    container.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
