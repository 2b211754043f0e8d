"""Dirty notes: a crash puts in doubt only what may have been forgotten.

An entry is answered only once the bookie has it on disk that the ledger *may have unsynced entries*
here. A checkpoint takes the note back once all that is here is synced. A boot after an unclean stop
leaves a ledger without a note, and without a mark of an earlier one, as it is: no boundary, no
limbo, true denials. Where a disk is not what it was everything is in doubt, whatever notes say.
"""

from collections.abc import Iterator

from model_rules import Bounds, NoteGoes, Rules
from model_state import Add, Bookie, Mark, MoveRole, Write

REQUESTS = (Add.REQUEST, Add.LATE_REQUEST)
WRITES = (Write.REQUEST, Write.LATE_REQUEST)


class Notes:
    """What notes add to the moves of one bookie; nothing outside `Bounds.notes`."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self._are_kept = bounds.notes
        self._rules = rules

    def may_answer_add(self, bookie: Bookie) -> bool:
        return bookie.noted or not self._rules.note_before_answer

    def may_answer_write_back(self, bookie: Bookie) -> bool:
        return self.may_answer_add(bookie) or not self._rules.notes_of_write_backs

    def stores_early(self, bookie: Bookie) -> Iterator[tuple[int, Bookie]]:
        """Entries that can be read here before the note is durable; nobody has an answer yet."""
        if not self._rules.stores_before_note or bookie.noted:
            return
        for entry, add in enumerate(bookie.adds):
            if add in REQUESTS and not bookie.held >> entry & 1:
                yield entry, bookie._replace(held=bookie.held | 1 << entry)

    def moves(self, bookie: Bookie) -> Iterator[tuple[str, Bookie]]:
        """Notes and checkpoints of a bookie that serves."""
        if not self._are_kept:
            return
        if not bookie.noted and self._has_use(bookie):
            yield "notes", bookie._replace(noted=True)
        if bookie.flushing >= 0:
            yield "flushes", self._flushed(bookie)
        elif bookie.held & ~bookie.synced:
            stays = bookie.noted and self._rules.note_goes is not NoteGoes.BEGUN
            yield "begins_flush", bookie._replace(flushing=bookie.held, noted=stays)
        elif bookie.noted and not self._has_use(bookie):
            yield "unnotes", bookie._replace(noted=False)

    def _has_use(self, bookie: Bookie) -> bool:
        """Something waits for it, or needs it already."""
        waits = any(add in REQUESTS for add in bookie.adds)
        writes = any(write in WRITES for desk in bookie.desks for write in desk.writes)
        if bookie.move is MoveRole.TARGET:
            return True
        return waits or writes or bookie.held & ~bookie.synced != 0

    def _flushed(self, bookie: Bookie) -> Bookie:
        stays = bookie.noted and self._rules.note_goes is not NoteGoes.ENDED
        synced = bookie.synced | bookie.flushing & bookie.held
        return bookie._replace(synced=synced, flushing=-1, noted=stays)

    def stopped(self, bookie: Bookie) -> Bookie:
        """Of any stop: a checkpoint that was under way has synced nothing."""
        return bookie._replace(flushing=-1)

    def without_disks(self, bookie: Bookie) -> Iterator[Bookie]:
        """Its boot finds other disks: with the notes of before, or with none."""
        for noted in (True, False) if self._are_kept else (True,):
            yield bookie._replace(noted=noted, replaced=True)

    def without_notes(self, bookie: Bookie) -> Iterator[Bookie]:
        """The disk with the notes is another one, and nothing else is lost."""
        if self._are_kept:
            yield bookie._replace(noted=False, replaced=True)

    def is_in_doubt(self, bookie: Bookie) -> bool:
        """What a boot after an unclean stop has to say of the ledger."""
        if bookie.noted or bookie.mark is not Mark.NONE:
            return True
        return bookie.replaced and self._rules.doubts_lost_disks

    @property
    def keep_fences(self) -> bool:
        """A fence stays forever where boots set it again, or where it is durable."""
        trusts = self._are_kept and not self._rules.doubts_lost_disks
        return not self._are_kept or (self._rules.fence_durable and not trusts)
