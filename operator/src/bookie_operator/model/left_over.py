"""What a bookie that has left the cluster leaves behind; the status lists it for people."""

from typing import Annotated, Final

from pydantic import Field

from bookie_operator.model.base import LongText, ShortText, StatusPart

LEFT_OVER_MAX: Final = 32
"""Bookies that are listed, at most: those with the lowest numbers, which would come back first."""
CLAIMS_MAX: Final = 32


class LeftOverStatus(StatusPart):
    """A bookie that is no longer part of the cluster, and what is kept of it."""

    bookie: ShortText
    """Id of the bookie that left."""
    claims: Annotated[tuple[ShortText, ...], Field(max_length=CLAIMS_MAX)] = ()
    """Names of its volume claims."""
    has_cookie: bool | None = None
    """Whether the metadata store has its cookie; absent = not known."""
    message: LongText = ""
    """Why it is kept, and what will happen to it."""

    @property
    def what(self) -> str:
        """`cookie, 2 claims: demo-bookie-4-journal, demo-bookie-4-ledger-0`"""
        cookie = ["cookie"] if self.has_cookie else []
        number = f"{len(self.claims)} claim{'s' if len(self.claims) > 1 else ''}"
        claims = [f"{number}: {', '.join(self.claims)}"] if self.claims else []
        return ", ".join(cookie + claims)
