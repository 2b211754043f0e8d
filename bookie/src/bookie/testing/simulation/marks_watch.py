"""Looks at every bookie's marks again and again: none may go before its ledger is settled.

A mark is limbo or unchecked. It goes only when the bookie holds all that the metadata puts on it,
or has recorded it as lost, and that on the disk itself when it tells; limbo, moreover, only when
the ledger is closed or deleted, or was OPEN with a last ensemble without the bookie. That holds
from life to life too: a boot may add marks, and no boot takes one away. And where there is no mark,
what was acknowledged is there: a bookie that may lack something of it says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bookie.errors import FrameError
from bookie.frames.frame import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_VERSION,
    frame_bytes,
    parse_run,
)
from bookie.ids import BookieId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.clearing import must_hold
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.history import History
from bookie.testing.simulation.wiretap import Wiretap

_MAGIC: Final = FRAME_MAGIC.to_bytes(2, "big") + bytes([FRAME_VERSION])


class MarksWatch:
    """See the module. Bookies whose disks lied or rot are left out: they break what they cannot
    know of.
    """

    def __init__(self, bookies: Sequence[SimBookie], history: History, wiretap: Wiretap) -> None:
        self._bookies = bookies
        self._history = history
        self._wiretap = wiretap
        self._looked: dict[tuple[str, LedgerId], tuple[int, LedgerMetadata | None, bool]] = {}
        """Life, metadata and mark with which a bookie's entries of a ledger were last checked."""
        self._seen: dict[str, tuple[frozenset[LedgerId], frozenset[LedgerId]]] = {}
        self._known: dict[LedgerId, LedgerMetadata | None] = {}
        """Metadata of marked ledgers at the last look."""
        self._opened: dict[tuple[str, LedgerId], tuple[int, int]] = {}
        """By bookie and marked ledger: the life in which the mark was first seen, and how many of
        the ledger's open ensembles were over then."""
        self._excused: set[str] = set()

    def excuse(self, bookie: str) -> None:
        """Excuse a bookie whose disks cannot be trusted from now on."""
        self._excused.add(bookie)

    def marks(self) -> set[tuple[str, LedgerId]]:
        """Every mark of the bookies that serve now."""
        found: set[tuple[str, LedgerId]] = set()
        for bookie in self._bookies:
            limbo, unchecked = bookie.marked or (frozenset(), frozenset())
            found.update((bookie.name, ledger_id) for ledger_id in limbo | unchecked)
        return found

    def look(self) -> None:
        """Compares with the last look; a bookie that does not serve now keeps what it had."""
        for bookie in self._bookies:
            now = bookie.marked
            if now is None or bookie.name in self._excused:
                continue
            limbo, unchecked = self._seen.get(bookie.name, (frozenset(), frozenset()))
            marked = now[0] | now[1]
            self._seen[bookie.name] = now
            self._check(bookie, sorted((limbo | unchecked) - marked), limbo)
            if not bookie.is_doomed:
                self._check_held(bookie)
        self._known = {
            ledger_id: self._history.ledger(ledger_id).metadata for _name, ledger_id in self.marks()
        }
        self._note_opened()

    def _note_opened(self) -> None:
        """A bookie that does not serve keeps what it had; of an earlier life nothing counts."""
        lives = {bookie.name: bookie.lives for bookie in self._bookies if bookie.marked is not None}
        marks = self.marks()
        kept = {
            (name, ledger_id): found
            for (name, ledger_id), found in self._opened.items()
            if name not in lives or (found[0] == lives[name] and (name, ledger_id) in marks)
        }
        for name, ledger_id in marks - kept.keys():
            over = max(0, len(self._history.ledger(ledger_id).open_ensembles) - 1)
            kept[name, ledger_id] = lives[name], over
        self._opened = kept

    def _was_left_out(self, bookie: SimBookie, ledger_id: LedgerId) -> bool:
        """Since the mark was first seen the ledger was OPEN with a last ensemble without the
        bookie, which may then take its time to make durable what it holds.
        """
        _life, since = self._opened.get((bookie.name, ledger_id), (0, 0))
        ensembles = self._history.ledger(ledger_id).open_ensembles[since:]
        return any(bookie.name not in ensemble for ensemble in ensembles)

    def _owed(self, metadata: LedgerMetadata, bookie: str) -> EntrySet:
        """What a bookie that lets go of its mark now was to hold already at the last look: a writer
        may have ended a fragment between the bookie's look at the metadata and ours.
        """
        owed = must_hold(metadata, BookieId(bookie))
        before = self._known.get(metadata.ledger_id)
        return owed if before is None else owed & must_hold(before, BookieId(bookie))

    def _check_held(self, bookie: SimBookie) -> None:
        """What it acknowledged and is to hold is there, or it says that it may not be. Of ledgers
        that the metadata store had lost for a while it is not: a bookie could rightly drop them.
        """
        for ledger_id, known in self._history.ledgers.items():
            is_owed = ledger_id not in self._wiretap.mislaid
            if not (is_owed and self._wiretap.has_acked(bookie.name, ledger_id)):
                continue
            state = (bookie.lives, known.metadata, bookie.doubts(ledger_id))
            if known.metadata is None:
                self._check_given_up(bookie, ledger_id)
            elif self._looked.get((bookie.name, ledger_id)) != state:
                self._looked[bookie.name, ledger_id] = state
                self._check_undoubted(bookie, ledger_id)

    def _check_given_up(self, bookie: SimBookie, ledger_id: LedgerId) -> None:
        if bookie.held(ledger_id).is_empty:
            self._wiretap.given_up(bookie.name, ledger_id)

    def _check_undoubted(self, bookie: SimBookie, ledger_id: LedgerId) -> None:
        if bookie.doubts(ledger_id):
            return
        pledged = self._wiretap.pledged(bookie.name, ledger_id)
        missing = pledged - bookie.held(ledger_id) - bookie.lost(ledger_id)
        if not missing.is_empty:
            self._history.violate(
                f"{bookie.name} has no mark of ledger {ledger_id} and lacks {len(missing)} entries "
                f"that it acknowledged and is to hold, {missing.ranges()[0][0]} first"
            )

    def cleared(self, bookie_id: str, ledger_id: LedgerId) -> None:
        """It said that it let go of its mark: what it then holds, a power cut leaves."""
        bookie = next(one for one in self._bookies if one.name == bookie_id)
        metadata = self._history.ledger(ledger_id).metadata
        if bookie_id in self._excused or metadata is None or bookie.mode == "journal":
            return
        if bookie.is_doomed:
            return  # it may be a second process that tells, on disks of its own
        owed = self._owed(metadata, bookie_id) - bookie.lost(ledger_id)
        missing = owed - _durable(bookie, ledger_id)
        if not missing.is_empty:
            self._history.violate(
                f"{bookie_id} told that its mark of ledger {ledger_id} is gone while "
                f"{len(missing)} entries that it is to hold were not durable"
            )

    def _check(
        self, bookie: SimBookie, gone: Iterable[LedgerId], limbo: frozenset[LedgerId]
    ) -> None:
        for ledger_id in gone:
            metadata = self._history.ledger(ledger_id).metadata
            if metadata is None:
                continue
            is_early = ledger_id in limbo and not metadata.is_closed
            if is_early and not self._was_left_out(bookie, ledger_id):
                self._history.violate(
                    f"{bookie.name} let go of its limbo mark of ledger {ledger_id}, which is "
                    f"{metadata.state.value}"
                )
                continue
            missing = (
                self._owed(metadata, bookie.name) - bookie.held(ledger_id) - bookie.lost(ledger_id)
            )
            if not missing.is_empty:
                self._history.violate(
                    f"{bookie.name} let go of its mark of ledger {ledger_id} without "
                    f"{len(missing)} entries that it is to hold, {missing.ranges()[0][0]} first"
                )


def _durable(bookie: SimBookie, ledger_id: LedgerId) -> EntrySet:
    """Entries of the ledger in frames that are whole on the disk, whatever an index says."""
    disk = bookie.disk.durable()
    entries: list[tuple[int, int]] = []
    for directory in bookie.directories[1:]:
        for name in disk.list_directory(directory / "log"):
            content = memoryview(disk.content(directory / "log" / name))
            for at in _frames(bytes(content)):
                try:
                    run = parse_run(content[at : at + frame_bytes(content[at:])])
                except FrameError:
                    continue
                if run.ledger_id == ledger_id:
                    entries += [(entry_id, entry_id) for entry_id in run.entry_ids()]
    return EntrySet.from_ranges(entries)


def _frames(content: bytes) -> Iterator[int]:
    """Where a frame may begin."""
    at = content.find(_MAGIC)
    while 0 <= at <= len(content) - FRAME_HEADER_BYTES:
        yield at
        at = content.find(_MAGIC, at + 1)
