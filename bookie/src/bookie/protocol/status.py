"""The answers that a bookie can give; each wire maps them to its own numbers (R7)."""

from enum import IntEnum


class Status(IntEnum):
    """A bookie's answer to one request.

    Only the two NO_SUCH answers deny; everything that is not OK and not a denial is *unknown* and
    must never be counted as a denial (R7).
    """

    OK = 0
    NO_SUCH_LEDGER = 1
    NO_SUCH_ENTRY = 2
    UNKNOWN = 3
    """In limbo or not yet checked: this bookie may have forgotten."""
    FENCED = 4
    UNAUTHORIZED = 5
    """Wrong master key."""
    READ_ONLY = 6
    BAD_REQUEST = 7
    IO_ERROR = 8
    OVERLOADED = 9
    NOT_READY = 10
    """Booting or stopping."""
    UNREACHABLE = 11
    """No bookie sends this: the client sets it when there is no answer (refused, cut off, timed
    out)."""

    @property
    def is_denial(self) -> bool:
        """True when the bookie says, with authority, that it never accepted the entry."""
        return self in (Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY)

    @property
    def is_known(self) -> bool:
        """True for OK and denials: these answers count toward fence coverage."""
        return self is Status.OK or self.is_denial
