"""Maintenance beside maintenance: whatever comes between two pieces of it, one oracle is right.

Adds, copies of recovery, rejected copies, deletions, ledgers that come back, checkpoints, pieces of
a compaction and stops come in any order. After each step every entry is what the oracle says: read
as it was added, unreadable, or not there.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from bookie.frames.frame import CONSECUTIVE, Pattern, RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage import compaction
from bookie.storage.modes import DurabilityMode
from storage_kit import KIB, StorageKit, interrupted, run

LEDGERS: Final = (1, 2, 3)
ID_MAX: Final = 40
STEPS: Final = 150
ENTRY_BYTES: Final = 900
PATTERNS: Final = (CONSECUTIVE, CONSECUTIVE, Pattern(2, 3))
"""With the second an entry that was added before splits a run in two, and a rejected one does."""

REJECTED: Final = b""
"""What an entry is of which no copy is good any more."""


@dataclass
class Stored:
    """One entry."""

    first: bytes
    """The copy that counts; `REJECTED`: it is no good, and none has taken its place."""
    more: set[bytes] = field(default_factory=set)
    """Copies that came behind a good one: nobody lists them, but where the frame of one is read for
    the sake of other entries a reader may be given it."""

    def add(self, body: bytes, *, is_recovery: bool) -> None:
        if is_recovery and self.first == REJECTED:
            self.first = body
        else:
            self.more.add(body)


class Oracle:
    """A storage and, said once more in the plainest way, what each of its ledgers holds."""

    def __init__(self, kit: StorageKit, rng: random.Random) -> None:
        self.kit = kit
        self.rng = rng
        self.entries: dict[int, dict[int, Stored]] = {ledger: {} for ledger in LEDGERS}
        """By ledger and id."""
        self.deleted: set[int] = set()
        self.copies = 0

    # Steps
    def add(self) -> None:
        """A run, or a copy that recovery brings: of an id that is here the first good one stays."""
        ledger = self.rng.choice([one for one in LEDGERS if one not in self.deleted] or [0])
        if not ledger:
            return
        self.copies += 1
        frame = self._frame(ledger)
        self.kit.add(frame)
        held = self.entries[ledger]
        for entry_id, body in zip(frame.entry_ids(), map(bytes, frame.entries()), strict=True):
            if entry_id in held:
                held[entry_id].add(body, is_recovery=frame.is_recovery)
            else:
                held[entry_id] = Stored(body)

    def _frame(self, ledger: int) -> RunFrame:
        fill = (b"%06d" % self.copies) * (ENTRY_BYTES // 6)
        first, count = self.rng.randrange(ID_MAX - 16), self.rng.choice((1, 3, 8))
        pattern = self.rng.choice(PATTERNS)
        is_recovery = self.rng.random() < 0.4
        return run(ledger, first, count, pattern=pattern, recovery=is_recovery, fill=fill)

    def reject(self) -> None:
        """Some copies are no good, as the bookie has found behind a checkpoint."""
        ledger = self.rng.choice(LEDGERS)
        first = self.rng.choice([*self.entries[ledger]] or [0])
        wanted = EntrySet.from_ranges([(first, first + self.rng.choice((0, 0, 3)))])
        self.checkpoint()
        self.kit.storage.maintenance.reject(LedgerId(ledger), wanted, lambda _frame: wanted)
        for entry_id, stored in self.entries[ledger].items():
            if entry_id in wanted:
                stored.first = REJECTED

    def delete(self) -> None:
        ledger = self.rng.choice(LEDGERS)
        self.kit.storage.maintenance.delete_ledgers([LedgerId(ledger)])
        self.entries[ledger].clear()
        self.deleted.add(ledger)

    def add_late(self) -> None:
        """Ruled before its ledger was deleted, stored after: the next checkpoint drops it."""
        for ledger in self.deleted:
            self.kit.add(self._frame(ledger))
        self.checkpoint()

    def revive(self) -> None:
        """Log and journal have nothing of it behind the last checkpoint, and no compaction has read
        of it: that might come back."""
        self.kit.compact()
        self.kit.storage.maintenance.journal.begin_file()
        self.checkpoint()
        ids = [LedgerId(ledger) for ledger in sorted(self.deleted)]
        self.kit.storage.maintenance.revive_ledgers(ids, epoch=1)
        self.deleted = {one for one in self.deleted if self._is_tombstone(one)}

    def _is_tombstone(self, ledger: int) -> bool:
        record = self.kit.storage.record(LedgerId(ledger))
        return record is not None and record.deleted

    def checkpoint(self) -> None:
        self.kit.storage.maintenance.checkpoint()

    def compact_some(self) -> None:
        """A few pieces of a compaction, which rests after each frame."""
        for _ in range(self.rng.choice((1, 1, 2, 20))):
            self.kit.storage.maintenance.compact_some()

    def stop(self) -> None:
        """In order, by a power cut, or by one that keeps some of what was not synced."""
        end: Callable[[StorageKit], StorageKit] = self.rng.choice(
            (StorageKit.reopened, StorageKit.after_power_cut, lambda kit: kit.after_crash(5))
        )
        self.kit = end(self.kit)

    def cut_off(self) -> None:
        """A stop in the middle of a checkpoint or a compaction."""
        work = self.rng.choice((self.kit.storage.maintenance.checkpoint, self.kit.compact))
        interrupted(self.kit, work, after_operations=self.rng.randrange(12))
        self.kit = self.kit.after_crash(self.rng.randrange(99))

    # What must hold
    def check(self) -> None:
        for ledger, entries in self.entries.items():
            listed = [i for i, stored in entries.items() if stored.first != REJECTED]
            assert self.kit.held(ledger) == EntrySet.from_ids(listed)
            read = self._read(ledger, 0, ID_MAX)
            assert read.keys() == entries.keys()
            for entry_id, bodies in read.items():
                stored = entries[entry_id]
                assert bodies <= {stored.first, *stored.more}
                alone = self._read(ledger, entry_id, entry_id) if self.rng.random() < 0.1 else read
                assert alone[entry_id] <= {stored.first, *stored.more}

    def _read(self, ledger: int, first: int, last: int) -> dict[int, set[bytes]]:
        """As a reader gets them; what is not there is denied."""
        found = self.kit.storage.read(
            LedgerId(ledger), first=EntryId(first), last=EntryId(last), bytes_max=1 << 24
        )
        assert found.answered_through == last
        read: dict[int, set[bytes]] = {}
        for frame in map(parse_run, found.runs):
            for entry_id, body in zip(frame.entry_ids(), frame.entries(), strict=True):
                if first <= entry_id <= last:
                    read.setdefault(entry_id, set()).add(bytes(body))
        for low, high in found.unreadable:
            for entry_id in range(low, high + 1):
                read.setdefault(entry_id, {REJECTED})
        return read


STEP_KINDS: Final = (
    *[Oracle.add] * 20, *[Oracle.reject] * 10, *[Oracle.compact_some] * 20,
    *[Oracle.checkpoint] * 4, *[Oracle.stop, Oracle.cut_off, Oracle.revive] * 2,
    Oracle.delete, Oracle.add_late,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_in_whatever_order_maintenance_comes_every_entry_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: DurabilityMode, seed: int
) -> None:
    monkeypatch.setattr(compaction, "SLICE_BYTES", 1)
    rng = random.Random(seed)
    monkeypatch.setattr(compaction, "BATCH_ROWS", rng.choice((3, 4096)))
    kit = StorageKit(
        tmp_path / "bookie",
        mode,
        disks=1,
        log_file_bytes=64 * KIB,
        compact_below=0.95,
    )
    oracle = Oracle(kit, rng)
    for _ in range(STEPS):
        rng.choice(STEP_KINDS)(oracle)
        oracle.check()
    oracle.kit.end()
