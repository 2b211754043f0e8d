"""What the core of the writer tells its shell to do: values, in the order to be carried out.

From `protocol.writer` to `client.writer`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from bookie.protocol.entry import Buffer
from bookie.protocol.errors import BookieError
from bookie.protocol.ids import BookieId, EntryId
from bookie.protocol.ledger import LedgerMetadata


class SendRun(NamedTuple):
    """Send `frame` to `bookie_id`; hand its status to `replied` together with this effect."""

    bookie_id: BookieId
    position: int
    generation: int
    run_id: int
    frame: Buffer


class Acked(NamedTuple):
    """Every entry up to and including `last` is durable on its ack quorum."""

    last: EntryId


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
    """Compare-and-set; hand what the store then holds to `store_answered`."""

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
