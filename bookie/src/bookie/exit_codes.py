"""Exit codes of the `bookie` command and of result objects; docs/cli.md lists them for people.

`bookie serve` alone has others (`server.lifecycle.ExitCode`): there 3 is a boot that was refused.
"""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    """Something failed; the message says what. Also a question that was answered with no."""
    USAGE = 2
    """Wrong options or settings."""
    FINDINGS = 3
    """The command worked and found damage: entries missing, below quorum or lost."""
    UNDECIDED = 4
    """Not everything could be answered now: bookies unreachable or in limbo; try again."""
    REFUSED = 5
    """The request was refused for safety; the message says what must be true first."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it."""
    CLOSED_PIPE = 141
    """Whoever read the output has gone (`| head`), as shells count it."""
