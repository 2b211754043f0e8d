"""The effects of the writer's core, which its shell carries out in order. Values only.

From `protocol.writer` to `client.writer`.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from bookie.errors import BookieError
from bookie.frames.entry import Buffer
from bookie.frames.from_fields import from_fields
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import LedgerMetadata


class Recipient(NamedTuple):
    """A bookie that gets a run, its position in the ensemble, and the position's `generation`: how
    often its member has failed or was replaced.
    """

    bookie_id: BookieId
    position: int
    generation: int


class SendRun(NamedTuple):
    """Send `frame` to all `recipients`; pass the status of each to `replied`, with run and
    recipient.
    """

    run_id: int
    frame: Buffer
    recipients: tuple[Recipient, ...]


class Acked(NamedTuple):
    """Every entry up to and including `last` is durable on its ack quorum."""

    last: EntryId


send_run: Final = from_fields(SendRun)


@dataclass(frozen=True, slots=True)
class NeedReplacement:
    """Choose bookies for these failed positions; answer `replace` or `no_replacement`."""

    ensemble: tuple[BookieId, ...]
    positions: tuple[int, ...]

    @property
    def failed(self) -> tuple[BookieId, ...]:
        return tuple(self.ensemble[position] for position in self.positions)


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Compare-and-set this metadata; pass what the store then holds to `store_answered`."""

    metadata: LedgerMetadata
    version: int


@dataclass(frozen=True, slots=True)
class Failed:
    """No add above the LAC will be acknowledged; each may or may not be stored (R19)."""

    error: BookieError


@dataclass(frozen=True, slots=True)
class Closed:
    """The ledger is CLOSED in the store and ends at `last`."""

    last: EntryId


Effect = SendRun | Acked | NeedReplacement | WriteMetadata | Failed | Closed
