"""What a bookie answers to a request that it may refuse, as values without gRPC."""

from typing import NamedTuple


class RequestAnswer(NamedTuple):
    """Whether a bookie did what was asked, and why not."""

    accepted: bool
    message: str = ""


class RetractionAnswer(NamedTuple):
    """What a bookie did with a request to take a loss record back."""

    accepted: bool
    message: str = ""
    """Why it did not do it."""
    entries: int = 0
    """Number of entries whose loss record it took back; 0 = it had none."""
    in_limbo: bool = False
    """True when it put the ledger into limbo."""
