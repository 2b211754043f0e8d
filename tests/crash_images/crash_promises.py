"""What a bookie has promised by one moment of its life: answers given, states told.

A value, never changed in place: each crash point of a trace keeps the one that held then, and
`crash_claims` holds every boot after that crash against it. A promise that is about to be taken
back (a mark to be cleared, a marker to be removed) is dropped before the product begins with it:
from then on either state is right, as long as what the claims say of entries holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from bookie.frames.frame import RunFrame
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.storage.modes import DurabilityMode

ME = BookieId("bookie-0")

Value = TypeVar("Value")
Entries = Mapping[EntryId, bytes]


class Stop(Enum):
    """What the next boot must find of the stop before it."""

    EITHER = "nothing was acknowledged that could be missing"
    UNCLEAN = "it served and did not stop in order"
    CLEAN = "its clean stop was reported"


@dataclass(frozen=True, slots=True)
class Promises:
    """See the module. `durable`: of the acked ones, those that no crash may take. `fresh`: those
    acknowledged by the present process, which a flush makes durable.

    `refused`: ledgers that an unclean boot has fenced. `limbo`, `unchecked`: told as such, and
    nothing was done to clear them. `disks`: their ids by place; empty = replaced since.
    """

    mode: DurabilityMode = DurabilityMode.MEMORY
    stop: Stop = Stop.EITHER
    has_forgotten: bool = False
    """A disk was replaced or an index rebuilt, and no boot has ended since."""
    epoch: int = 0
    acked: Mapping[LedgerId, Entries] = field(default_factory=dict)
    fresh: Mapping[LedgerId, Entries] = field(default_factory=dict)
    durable: Mapping[LedgerId, Entries] = field(default_factory=dict)
    keys: Mapping[LedgerId, bytes] = field(default_factory=dict)
    lacs: Mapping[LedgerId, int] = field(default_factory=dict)
    losses: Mapping[LedgerId, frozenset[EntryId]] = field(default_factory=dict)
    fenced: frozenset[LedgerId] = frozenset()
    refused: frozenset[LedgerId] = frozenset()
    limbo: frozenset[LedgerId] = frozenset()
    unchecked: frozenset[LedgerId] = frozenset()
    deleted: frozenset[LedgerId] = frozenset()
    retracted: frozenset[LedgerId] = frozenset()
    draining: bool | None = False
    """None while that is being changed."""
    disks: tuple[str, ...] = ()

    @property
    def has_served(self) -> bool:
        return self.epoch > 0

    @property
    def fingerprint(self) -> str:
        """Equal for equal promises."""
        return repr(self)

    def with_acked(self, frame: RunFrame, *, key: bytes) -> "Promises":
        """Its entries were acknowledged; in the mode's sense."""
        entries = dict(zip(frame.entry_ids(), map(bytes, frame.entries()), strict=True))
        after = replace(
            self,
            acked=_with_entries(self.acked, frame.ledger_id, entries),
            fresh=_with_entries(self.fresh, frame.ledger_id, entries),
            keys={**self.keys, frame.ledger_id: key},
        )
        if self.mode is DurabilityMode.MEMORY:
            return after
        return replace(after, durable=_with_entries(self.durable, frame.ledger_id, entries))

    def with_flush(self, fresh: Mapping[LedgerId, Entries]) -> "Promises":
        """What the process had acknowledged before the flush is durable."""
        durable = self.durable
        for ledger_id in fresh.keys() & self.acked.keys():
            durable = _with_entries(durable, ledger_id, fresh[ledger_id])
        return replace(self, durable=durable)

    def with_loss(self, ledger_id: LedgerId, lost: Iterable[EntryId]) -> "Promises":
        known = self.losses.get(ledger_id, frozenset())
        return replace(self, losses={**self.losses, ledger_id: known | frozenset(lost)})

    def without_losses(self, ledger_id: LedgerId) -> "Promises":
        """They begin to be taken back."""
        return replace(self, losses=_without(self.losses, ledger_id))

    def with_retraction(self, ledger_id: LedgerId) -> "Promises":
        """What may have been denied on their word is unknown."""
        return replace(self, limbo=self.limbo | {ledger_id}, retracted=self.retracted | {ledger_id})

    def without_marks(self, ledger_ids: Iterable[LedgerId]) -> "Promises":
        """Their clearing begins."""
        going = frozenset(ledger_ids)
        return replace(self, limbo=self.limbo - going, unchecked=self.unchecked - going)

    def without_ledger(self, ledger_id: LedgerId) -> "Promises":
        """It was deleted from the metadata: its entries may go, its fence may not."""
        after = self.without_marks([ledger_id])
        return replace(
            after,
            acked=_without(self.acked, ledger_id),
            durable=_without(self.durable, ledger_id),
            losses=_without(self.losses, ledger_id),
        )

    def without_disk(self, place: int, gone: Iterable[LedgerId], *, last: bool) -> "Promises":
        """A volume was replaced: what lay on it alone is gone, and that is no clean state.

        `gone`: ledgers that had something there. `last`: no other ledger disk is left.
        """
        going = frozenset(gone)
        durable = {i: found for i, found in self.durable.items() if i not in going}
        after = replace(self._without_journal(going)._unnamed(place), durable=durable)
        if place > 0:
            after = after._without_index(going, losses={} if last else self.losses)
        return replace(after, stop=Stop.UNCLEAN, has_forgotten=True)

    def without_index(self, place: int, gone: Iterable[LedgerId], *, last: bool) -> "Promises":
        """It is about to go: the log has the entries, nothing has what only the index knew.

        Where there is no log yet, the directory is as good as that of a new disk.
        """
        going = frozenset(gone)
        after = self._without_journal(going)._unnamed(place)
        return replace(
            after._without_index(going, losses={} if last else self.losses), stop=Stop.EITHER
        )

    def _unnamed(self, place: int) -> "Promises":
        disks = tuple("" if at == place else disk for at, disk in enumerate(self.disks))
        return replace(self, disks=disks)

    def _without_journal(self, going: frozenset[LedgerId]) -> "Promises":
        """Keys and LACs are in the journal or in the index; which, is not known here."""
        keys = {i: key for i, key in self.keys.items() if i not in going}
        lacs = {i: lac for i, lac in self.lacs.items() if i not in going}
        return replace(self, keys=keys, lacs=lacs)

    def _without_index(
        self, going: frozenset[LedgerId], *, losses: Mapping[LedgerId, frozenset[EntryId]]
    ) -> "Promises":
        """The next boot marks anew, by the state that the metadata has by then."""
        return replace(
            self,
            losses=losses,
            deleted=self.deleted - going,
            limbo=self.limbo - going,
            unchecked=self.unchecked | (self.limbo & going),
        )


def _with_entries(
    known: Mapping[LedgerId, Entries], ledger_id: LedgerId, entries: Entries
) -> dict[LedgerId, Entries]:
    # The first copy stays, as on the bookie.
    return {**known, ledger_id: {**entries, **known.get(ledger_id, {})}}


def _without(known: Mapping[LedgerId, Value], ledger_id: LedgerId) -> dict[LedgerId, Value]:
    return {each: entries for each, entries in known.items() if each != ledger_id}
