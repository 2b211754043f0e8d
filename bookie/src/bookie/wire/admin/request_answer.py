"""What a bookie says to a request that it may turn down: a value, without gRPC."""

from typing import NamedTuple


class RequestAnswer(NamedTuple):
    """Whether a bookie did what was asked, and why not."""

    accepted: bool
    message: str = ""


class RetractionAnswer(NamedTuple):
    """What a bookie did with the wish to take a loss record back."""

    accepted: bool
    message: str = ""
    """Why not."""
    entries: int = 0
    """Of which it took a record back; 0 = it had none."""
    in_limbo: bool = False
    """It put the ledger into limbo."""
