"""What a bookie that has left leaves behind, as the status lists it for people to know it by."""

from typing import Annotated, Final

from pydantic import Field

from bookie_operator.model.base import LongText, ShortText, StatusPart

LEFT_OVER_MAX: Final = 32
"""Bookies; of more, those with the lowest numbers, which would come back first."""
CLAIMS_MAX: Final = 32


class LeftOverStatus(StatusPart):
    """A bookie that is no part of the cluster any more, and what is kept of it."""

    bookie: ShortText
    """Id of the bookie that left."""
    claims: Annotated[tuple[ShortText, ...], Field(max_length=CLAIMS_MAX)] = ()
    """Of its volumes, by name."""
    has_cookie: bool | None = None
    """In the metadata store; absent = not known."""
    message: LongText = ""
    """What it is, and what becomes of it."""

    @property
    def what(self) -> str:
        """`cookie, 2 claims: demo-bookie-4-journal, demo-bookie-4-ledger-0`"""
        cookie = ["cookie"] if self.has_cookie else []
        number = f"{len(self.claims)} claim{'s' if len(self.claims) > 1 else ''}"
        claims = [f"{number}: {', '.join(self.claims)}"] if self.claims else []
        return ", ".join(cookie + claims)
