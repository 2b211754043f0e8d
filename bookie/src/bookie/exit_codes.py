"""Exit codes of the `bookie` command and of result objects; docs/cli.md lists them for people.

Only `bookie serve` has codes of its own (`server.lifecycle.ExitCode`): there, 3 means that the boot
was refused.
"""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    """Something failed; the message says what. Also: the command asked a question and the answer
    was no."""
    USAGE = 2
    """Wrong options or settings."""
    FINDINGS = 3
    """The command worked and found damage: entries missing, below quorum or lost."""
    UNDECIDED = 4
    """Not everything could be answered now: bookies unreachable or in limbo; try again."""
    REFUSED = 5
    """The request was refused for safety; the message says what must be true first."""
    INTERRUPTED = 130
    """The person pressed Ctrl-C; shells use the same number."""
    CLOSED_PIPE = 141
    """The reader of the output has ended (`| head`); shells use the same number."""
    TERMINATED = 143
    """A SIGTERM ended the command; shells use the same number."""
