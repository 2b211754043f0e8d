"""What a bookie says to a request that it may turn down: a value, without gRPC."""

from typing import NamedTuple


class RequestAnswer(NamedTuple):
    """Whether a bookie did what was asked, and why not."""

    accepted: bool
    message: str = ""
