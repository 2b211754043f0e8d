"""Write-back of recovered entries: recovery adds, their acks, and local ensemble changes.

Part of `recovery`. It sends entries, verbatim and as runs, to their write set in the current
*local* ensemble; an entry is safe once Qa members have acknowledged the write-back, and a read
never counts as an ack (R13). A member that fails is replaced only locally: the closing
compare-and-set writes the fragments, so a second recoverer never reads from bookies that had
nothing (spec 72a4003).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Final

from bookie.errors import BookieError, NotEnoughBookiesError
from bookie.frames.build import build_run
from bookie.frames.entry import Buffer
from bookie.frames.frame import CONSECUTIVE, FLAG_RECOVERY, RUN_ENTRIES_MAX, Pattern
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import LedgerMetadata, changed_ensemble
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.status import Status

RUN_BYTES_MAX: Final = 1024 * 1024
"""Entries are grouped into runs of at most this size; a larger entry gets a run of its own."""


@dataclass(frozen=True, slots=True)
class AddRun:
    """Send this frame to this bookie; answer with `on_added(op, status)`."""

    op: int
    bookie_id: BookieId
    frame: Buffer = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replace:
    """Choose a bookie for this position, none of `exclude`; answer with `on_replacement`."""

    position: int
    ensemble: tuple[BookieId, ...]
    exclude: frozenset[BookieId]


WriteBackEffect = AddRun | Replace
_Run = tuple[Pattern, tuple[EntryId, ...]]


@dataclass(frozen=True, slots=True)
class _Sent:
    """A run that was sent to the member at `position`, and that it has yet to acknowledge."""

    position: int
    entry_ids: tuple[EntryId, ...]


class WriteBack:
    """The entries being written back, until each has its ack quorum."""

    def __init__(self, metadata: LedgerMetadata, *, lac: EntryId, ops: Iterator[int]) -> None:
        self.fragments = metadata.fragments
        """The local view of the fragments; until the close, all but the last are as in the metadata
        store."""
        self.failure: BookieError | None = None
        """Why no entry can be written back any more; ends the recovery."""
        self._metadata = metadata
        """The ledger as seen at the start; used for its quorums."""
        self._lac = lac
        """The LAC in every run that is sent. It never changes: a LAC that rises would show readers
        entries that the close may still exclude (R16)."""
        self._ops = ops
        """Numbers for requests; the whole attempt shares them, so that none is used twice."""
        self._sent: dict[int, _Sent] = {}
        """Runs without an answer, by number; none to a failed member."""
        size = metadata.ensemble_size
        self._write_sets = [
            write_set_positions(
                EntryId(residue), ensemble_size=size, write_quorum=metadata.write_quorum
            )
            for residue in range(size)
        ]
        """Ensemble positions that store an entry, by its id modulo E."""
        striped = metadata.write_quorum < size
        self._pattern = Pattern(metadata.write_quorum, size) if striped else CONSECUTIVE
        """The pattern of the ids in one member's share."""
        self._pending: dict[EntryId, Buffer] = {}
        """Entries that lack their ack quorum, verbatim; ids rise."""
        self._pending_bytes = 0
        """Sum of the sizes of `_pending`."""
        self._acked: list[set[EntryId]] = [set() for _ in range(size)]
        """By position: pending entries that its present member has acknowledged."""
        self._failed: dict[int, Status] = {}
        """Positions whose member failed and is not replaced yet, with its last answer."""
        self._asking: int | None = None
        """The failed position for which the shell is choosing a bookie; one at a time."""
        self._chosen: dict[int, BookieId] = {}
        """Bookies chosen for failed positions while nothing was pending. A fragment needs an entry
        to start at, so the next `add` puts them into the ensemble. Empty while anything is
        pending."""
        self._hopeless: set[int] = set()
        """Failed positions for which there is no bookie. Not ideal: this attempt never tries them
        again; if it fails for that reason, the whole attempt is repeated."""
        self._refused: set[BookieId] = set()
        """Members that were replaced; this attempt never chooses them again."""

    @property
    def pending(self) -> int:
        """Entries that have not reached their ack quorum."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        return self._pending_bytes

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        return self.fragments[-1].ensemble

    def add(self, entries: Sequence[tuple[EntryId, Buffer]]) -> list[WriteBackEffect]:
        """Send recovered entries, ids rising, to their write sets."""
        fresh = dict(entries)
        assert self._pending.keys().isdisjoint(fresh.keys())
        self._pending.update(fresh)
        self._pending_bytes += sum(map(len, fresh.values()))
        for position, bookie_id in self._chosen.items():
            self._change(position, bookie_id)
        self._chosen.clear()
        alive = [p for p in range(self._metadata.ensemble_size) if p not in self._failed]
        effects = self._send(alive, list(fresh)) + self._repair_ensemble()
        self._check()
        return effects

    def distrust(self, bookie_id: BookieId) -> list[WriteBackEffect]:
        """Replace a member that returned a corrupt copy: it would keep that copy, so its acks mean
        nothing.
        """
        if bookie_id not in self.ensemble:
            return []
        self._fail(self.ensemble.index(bookie_id), Status.IO_ERROR)
        effects = self._repair_ensemble()
        self._check()
        return effects

    def _fail(self, position: int, status: Status) -> None:
        self._failed.setdefault(position, status)
        self._sent = {o: s for o, s in self._sent.items() if s.position != position}

    def on_added(self, op: int, status: Status) -> list[WriteBackEffect]:
        """Take a bookie's answer to one AddRun; unknown ops belong to replaced members (R17)."""
        sent = self._sent.pop(op, None)
        if sent is None:
            return []
        effects: list[WriteBackEffect] = []
        if status is Status.OK:
            self._acknowledge(sent)
        else:
            self._fail(sent.position, status)
            effects = self._repair_ensemble()
        self._check()
        return effects

    def on_replacement(self, position: int, bookie_id: BookieId | None) -> list[WriteBackEffect]:
        """Take the answer to a Replace: the bookie chosen, or None when there is none."""
        if position != self._asking:
            return []
        self._asking = None
        effects: list[WriteBackEffect] = []
        if bookie_id is None:
            self._hopeless.add(position)
        elif not self._pending:
            self._chosen[position] = bookie_id
        else:
            self._change(position, bookie_id)
            effects = self._send([position], list(self._pending))
        effects += self._repair_ensemble()
        self._check()
        return effects

    def _acknowledge(self, sent: _Sent) -> None:
        self._acked[sent.position] |= self._pending.keys() & sent.entry_ids
        # Entries become safe in order, so that a local fragment can start at the first one that is
        # not.
        safe = list(takewhile(self._is_safe, self._pending))
        for entry_id in safe:
            self._pending_bytes -= len(self._pending.pop(entry_id))
        for acked in self._acked:
            acked.difference_update(safe)

    def _is_safe(self, entry_id: EntryId) -> bool:
        return sum([entry_id in acked for acked in self._acked]) >= self._metadata.ack_quorum

    def _change(self, position: int, bookie_id: BookieId) -> None:
        self._refused.add(self.ensemble[position])
        self.fragments = changed_ensemble(
            self.fragments,
            first_entry_id=next(iter(self._pending)),
            replacements={position: bookie_id},
        )
        del self._failed[position]
        self._acked[position].clear()  # the new member has no entry yet

    def _repair_ensemble(self) -> list[WriteBackEffect]:
        """Ask for the next replacement, one at a time; set `failure` when an entry cannot get its
        acks.
        """
        settled = self._hopeless | self._chosen.keys()
        wanted = [p for p in sorted(self._failed) if p not in settled]
        if not self._pending or self._asking is not None:
            return []
        if wanted:
            self._asking = wanted[0]
            taken = frozenset(self.ensemble) | self._refused | frozenset(self._chosen.values())
            return [Replace(wanted[0], self.ensemble, taken)]
        if not self._failed:
            return []
        stuck = next((i for i in self._pending if not self._can_be_acked(i)), None)
        if stuck is not None:
            self.failure = self._not_enough(stuck)
        return []

    def _can_be_acked(self, entry_id: EntryId) -> bool:
        possible = [
            position not in self._failed or entry_id in self._acked[position]
            for position in self._write_set(entry_id)
        ]
        return sum(possible) >= self._metadata.ack_quorum

    def _not_enough(self, entry_id: EntryId) -> NotEnoughBookiesError:
        said = ", ".join(
            f"{self.ensemble[position]}: {status.name}"
            for position, status in sorted(self._failed.items())
        )
        return NotEnoughBookiesError(
            f"ledger {self._metadata.ledger_id} entry {entry_id} is recovered, but cannot be "
            f"written back to {self._metadata.ack_quorum} bookies ({said}) and no other bookie is "
            "there to take their place: bring them back or add bookies, then try again"
        )

    def _write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        return self._write_sets[entry_id % len(self._write_sets)]

    def _send(self, positions: Sequence[int], ids: Sequence[EntryId]) -> list[WriteBackEffect]:
        """Send each position its share of these entries; equal shares and equal runs are built
        once.
        """
        effects: list[WriteBackEffect] = []
        runs: dict[tuple[EntryId, ...], list[_Run]] = {}
        frames: dict[tuple[EntryId, ...], Buffer] = {}
        for position in positions:
            share = tuple(self._share(position, ids))
            if share not in runs:
                runs[share] = list(self._runs(share))
            for pattern, run_ids in runs[share]:
                if run_ids not in frames:
                    frames[run_ids] = self._frame(pattern, run_ids)
                op = next(self._ops)
                self._sent[op] = _Sent(position, run_ids)
                effects.append(AddRun(op, self.ensemble[position], frames[run_ids]))
        return effects

    def _share(self, position: int, ids: Sequence[EntryId]) -> Sequence[EntryId]:
        if self._pattern is CONSECUTIVE:
            return ids
        return [entry_id for entry_id in ids if position in self._write_set(entry_id)]

    def _frame(self, pattern: Pattern, run_ids: tuple[EntryId, ...]) -> Buffer:
        return build_run(
            self._metadata.ledger_id,
            run_ids[0],
            [self._pending[entry_id] for entry_id in run_ids],
            lac=self._lac,
            pattern=pattern,
            flags=FLAG_RECOVERY,
        )

    def _runs(self, ids: Sequence[EntryId]) -> Iterator[_Run]:
        """Cut a position's rising ids into as few runs as order, size and count allow."""
        sizes = list(accumulate(map(len, map(self._pending.__getitem__, ids)), initial=0))
        at = 0
        while at < len(ids):
            fit = bisect_right(sizes, sizes[at] + RUN_BYTES_MAX) - 1
            end = max(self._row_end(ids, at, min(fit, at + RUN_ENTRIES_MAX)), at + 1)
            run_ids = tuple(ids[at:end])
            plain = run_ids[-1] - run_ids[0] == len(run_ids) - 1
            yield CONSECUTIVE if plain else self._pattern, run_ids
            at = end

    def _row_end(self, ids: Sequence[EntryId], at: int, end: int) -> int:
        """The index up to which the ids from `at` on follow the pattern, at most `end`."""
        if self._pattern is CONSECUTIVE:  # id minus index grows at each gap
            distance = ids[at] - at
            return bisect_right(range(end), distance, lo=at, key=lambda k: ids[k] - k)
        reached = at
        while reached < end and ids[reached] == self._pattern.id_at(ids[at], reached - at):
            reached += 1
        return reached

    def _check(self) -> None:
        """Assert the invariants after each event; that is once a run, not once an entry."""
        failed = self._failed.keys()
        assert (self._pending_bytes > 0) == bool(self._pending)
        assert self._chosen.keys() <= failed and self._hopeless <= failed
        assert not (self._chosen and self._pending)
        assert self._asking is None or self._asking in failed - self._hopeless
        if failed and self._asking is None and self.failure is None:
            assert all(map(self._can_be_acked, self._pending)), "an entry waits for nobody"
        assert not failed or all(sent.position not in failed for sent in self._sent.values())
