"""The runs whose crash images are made: short stories of one bookie, by the product's own code.

Each begins with what it needs, undisturbed: `bookie.begin_trace()` is called where the crash points
are to begin.
"""

import contextlib
import errno
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.takeover import BootSettings
from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.modes import DurabilityMode
from crash_bookie import OTHERS, RecordedBookie, boot_settings
from crash_promises import Stop

MEMORY: Final = DurabilityMode.MEMORY
JOURNAL: Final = DurabilityMode.JOURNAL
SYNC: Final = DurabilityMode.SYNC

CHECKPOINT_OPERATIONS: Final = 5
"""More than a checkpoint has, so that the last one is not interrupted."""

Story = Callable[[RecordedBookie], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Run:
    """One story. `may_refuse`: beginnings of refusals that are right on some of its images.
    `images`: at most so many are booted, evenly over the whole."""

    name: str
    tell: Story
    settings: BootSettings
    may_refuse: tuple[str, ...] = ()
    images: int = 1_000_000

    def allows(self, refusal: str) -> bool:
        return refusal.startswith(self.may_refuse)


async def first_boot(bookie: RecordedBookie) -> None:
    """Nothing there -> serving."""
    bookie.begin_trace()
    await bookie.boot()


async def clean_stop(bookie: RecordedBookie) -> None:
    """Adds, a stop in order, and the boot after it."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 3)
    bookie.begin_trace()
    await bookie.stop()
    await bookie.boot()


async def unclean_boot(bookie: RecordedBookie) -> None:
    """Adds, SIGKILL, and the boot that fences and marks."""
    await bookie.boot()
    one, two = await bookie.ledger(), await bookie.ledger()
    await bookie.add(one, 0, 3)
    await bookie.flush()
    await bookie.add(one, 3)
    await bookie.add(two, 0, 2)
    await bookie.close_ledger(two, 1)
    await bookie.ledger(ensemble=OTHERS)
    bookie.kill()
    bookie.begin_trace()
    await bookie.boot()


async def notes(bookie: RecordedBookie) -> None:
    """A ledger goes idle, is written again and goes idle again, beside one that stays busy; a write
    of a recovery comes to a third. An add comes between the end of a flush and the look at notes.
    Then a power cut, and the boot after it."""
    await bookie.boot()
    idle, busy, copied = [await bookie.ledger() for _ in range(3)]
    for ledger in (idle, busy, copied):
        await bookie.add(ledger, 0)
    for number in range(1, 4):
        await bookie.add(busy, number)
        await bookie.flush()
    assert idle not in bookie.storage.noted_ledgers()
    bookie.begin_trace()
    await bookie.add(idle, 1)
    await bookie.flush()
    await bookie.add(idle, 2)
    await bookie.add(copied, 1, recovery=True)
    await bookie.flush()
    await bookie.checkpoint()
    await bookie.add(copied, 2)
    bookie.take_back_notes()
    await bookie.flush()
    await bookie.add(busy, 4)
    bookie.cut_power()
    await bookie.boot()


async def boots_that_doubt_noted_ledgers(bookie: RecordedBookie) -> None:
    """Two power cuts in a row, the second one in the boot after the first; idle ledgers are left
    alone by both boots."""
    await bookie.boot()
    idle, busy = await bookie.ledger(), await bookie.ledger()
    await bookie.add(idle, 0)
    for _ in range(3):
        await bookie.flush()
    await bookie.add(busy, 0, 2)
    bookie.cut_power()
    bookie.begin_trace()
    await bookie.boot()
    assert bookie.storage.limbo_ledgers() == [busy]
    await bookie.add(idle, 1)
    bookie.cut_power()
    await bookie.boot()
    assert bookie.storage.limbo_ledgers() == [idle, busy]


async def boot_after_a_power_cut(bookie: RecordedBookie) -> None:
    """As `unclean_boot`, of what a power cut left."""
    await bookie.boot()
    one = await bookie.ledger()
    await bookie.add(one, 0, 3)
    await bookie.flush()
    await bookie.add(one, 3)
    bookie.cut_power()
    bookie.begin_trace()
    await bookie.boot()


async def journal_after_memory(bookie: RecordedBookie) -> None:
    """S29: the mode of the crash counts, not the one that is set now."""
    await bookie.boot()
    one = await bookie.ledger()
    await bookie.add(one, 0, 3)
    await bookie.add(one, 3)  # in memory alone: it waits for no note
    bookie.kill()
    bookie.begin_trace()
    await bookie.boot(JOURNAL)
    await bookie.add(await bookie.ledger(), 0)


async def memory_after_journal(bookie: RecordedBookie) -> None:
    """The other way round: entries are replayed, then acknowledged from memory."""
    await bookie.boot()
    one = await bookie.ledger()
    await bookie.add(one, 0, 3)
    bookie.kill()
    bookie.begin_trace()
    await bookie.boot(MEMORY)
    await bookie.add(await bookie.ledger(), 0)
    await bookie.stop()


async def ledger_disk_replaced(bookie: RecordedBookie) -> None:
    """S39: the last ledger disk comes back empty after a clean stop; policy Auto."""
    await bookie.boot()
    for _ in range(3):
        await bookie.add(await bookie.ledger(), 0, 2)
    await bookie.stop()
    bookie.replace_volume(len(bookie.settings.storage.ledger_dirs))
    bookie.begin_trace()
    await bookie.boot()


async def idle_ledgers_on_a_replaced_disk(bookie: RecordedBookie) -> None:
    """No ledger has a note any more when a SIGKILL comes, and a disk is another one after it."""
    await bookie.boot()
    for _ in range(3):
        await bookie.add(await bookie.ledger(), 0, 2)
    for _ in range(3):
        await bookie.flush()
    assert not bookie.storage.noted_ledgers()
    bookie.kill()
    bookie.replace_volume(2)
    bookie.begin_trace()
    await bookie.boot()


async def journal_disk_replaced(bookie: RecordedBookie) -> None:
    """The journal's disk comes back empty after a SIGKILL."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2)
    await bookie.fence(ledger)
    bookie.kill()
    bookie.replace_volume(0)
    bookie.begin_trace()
    await bookie.boot()


async def disk_put_back(bookie: RecordedBookie) -> None:
    """Under policy Never a replaced disk is refused and nothing changes, so the old one may come
    back: then nothing has happened."""
    await bookie.boot()
    for _ in range(3):
        await bookie.add(await bookie.ledger(), 0, 2)
    await bookie.stop()
    stopped = bookie.recorder.promises
    bookie.begin_trace()
    volume = bookie.replace_volume(2)
    refusal = await bookie.fail_to_boot()
    assert "policy is Never" in str(refusal)
    bookie.recorder.cut("the old disk")
    bookie.put_back(2, volume)
    bookie.recorder.promise(stopped)
    await bookie.boot()


async def old_disk_put_back(bookie: RecordedBookie) -> None:
    """After boots without it an old disk is stale: a person is asked under every policy."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2)
    await bookie.stop()
    volume = bookie.replace_volume(1)
    await bookie.boot()
    await bookie.stop()
    bookie.begin_trace()
    bookie.put_back(1, volume)
    bookie.recorder.promise(replace(bookie.recorder.promises, stop=Stop.UNCLEAN))
    refusal = await bookie.fail_to_boot()
    assert "approval" in str(refusal)


async def boots_with_a_failing_disk(bookie: RecordedBookie) -> None:
    """An unclean boot that fails at each of its steps in turn, and at last succeeds."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2)
    await bookie.fence(ledger)
    bookie.kill()
    bookie.begin_trace()
    for operation, pattern in _FAILING:
        bookie.disk.fail(operation, pattern=pattern)
        await bookie.fail_to_boot()
    await bookie.boot()


_FAILING: Final = (
    ("sync", "*.jnl*"), ("commit", "index.sqlite"), ("sync", "STAMP*"), ("rename", "STAMP*"),
    ("syncdir", "journal"), ("sync", "DIRTY*"), ("syncdir", "ledger-0"),
)  # fmt: skip


async def limbo_over_restarts(bookie: RecordedBookie) -> None:
    """S30: a mark that may not be cleared stays, over a clean stop and over a SIGKILL."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2)
    bookie.kill()
    await bookie.boot()
    bookie.begin_trace()
    limbo = bookie.recorder.promises
    assert not any(await bookie.clear(ledger))
    bookie.recorder.promise(limbo)
    await bookie.stop()
    await bookie.boot()
    bookie.kill()
    await bookie.boot()


async def adds(bookie: RecordedBookie) -> None:
    """Adds of two ledgers, a checkpoint between."""
    await bookie.boot()
    one, two = await bookie.ledger(), await bookie.ledger()
    bookie.begin_trace()
    await bookie.add(one, 0, 2)
    await bookie.add(two, 0)
    await bookie.flush()
    await bookie.add(one, 2, 2)
    await bookie.add(two, 1)


async def checkpoints_under_load(bookie: RecordedBookie) -> None:
    """One checkpoint after the other, each begun with an add under way; at each of its operations
    in turn another one and a fence come in. All are answered when they may be."""
    await bookie.boot()
    written = await bookie.ledger()
    await bookie.add(written, 0)
    bookie.begin_trace()
    for turn in range(CHECKPOINT_OPERATIONS):
        fenced = await bookie.ledger()
        await bookie.add(fenced, 0)

        bookie.send_add(written, 2 * turn + 1)

        def come_in(fenced: LedgerId = fenced, entry_id: int = 2 * turn + 2) -> None:
            bookie.send_add(written, entry_id)
            bookie.send_fence(fenced)

        bookie.recorder.interrupt_after(turn, come_in)
        await bookie.flush()
        await bookie.settle()


async def fences(bookie: RecordedBookie) -> None:
    """Fence by LAC read and by recovery read, of a ledger never seen too; key; explicit LAC."""
    await bookie.boot()
    known, unseen = await bookie.ledger(), await bookie.ledger()
    bookie.begin_trace()
    await bookie.add(known, 0, 2)
    await bookie.write_lac(known, 1)
    await bookie.fence(known)
    await bookie.fence_by_read(unseen)
    await bookie.flush()


async def journal_roll_and_trim(bookie: RecordedBookie) -> None:
    """More records than a journal file takes, of ledgers on two disks, so that no log rolls with
    it; then a checkpoint that deletes files of the journal."""
    await bookie.boot()
    ledgers = [await bookie.ledger() for _ in range(3)]
    for ledger in ledgers[:2]:
        await bookie.add(ledger, 0, entry_bytes=3500)
    bookie.begin_trace()
    for ledger in ledgers:
        await bookie.add(ledger, 1, entry_bytes=3500)
    await bookie.fence(ledgers[0])
    await bookie.flush()


async def log_roll(bookie: RecordedBookie) -> None:
    """More entries than a log file takes, answered as the mode says."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2, entry_bytes=3500)
    bookie.begin_trace()
    for first in range(2, 6):
        await bookie.add(ledger, first, entry_bytes=3500)
    await bookie.flush()


async def clearing(bookie: RecordedBookie) -> None:
    """Limbo after a SIGKILL; copies by recovery adds; flush; clear; the boundary is lifted."""
    await bookie.boot()
    one, two = await bookie.ledger(), await bookie.ledger()
    await bookie.add(one, 0, 2)
    await bookie.add(two, 0)
    bookie.kill()
    await bookie.boot()
    await bookie.close_ledger(one, 1)
    await bookie.close_ledger(two, 0)
    bookie.begin_trace()
    await bookie.add(one, 0, 2, recovery=True)
    await bookie.add(two, 0, recovery=True)
    assert all(await bookie.clear(one, two))
    assert await bookie.finish_unchecked()


async def losses(bookie: RecordedBookie) -> None:
    """What no bookie has is recorded as lost; then the mark may go."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2)
    await bookie.flush()
    await bookie.add(ledger, 2)
    bookie.cut_power()
    await bookie.boot()
    await bookie.close_ledger(ledger, 2)
    bookie.begin_trace()
    refusal = await bookie.record_loss(ledger, 2, 2)
    assert not refusal, refusal
    assert all(await bookie.clear(ledger))
    assert await bookie.finish_unchecked()


async def retraction(bookie: RecordedBookie) -> None:
    """A loss record is taken back after a mark was cleared on its word: its entry is unknown.

    In a mode in which a crash leaves no marks: only that of the retraction keeps from a denial.
    """
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 2)
    await bookie.flush()
    await bookie.add(ledger, 2)
    bookie.cut_power()
    await bookie.boot()
    await bookie.close_ledger(ledger, 2)
    assert not await bookie.record_loss(ledger, 2, 2)
    assert all(await bookie.clear(ledger)) and await bookie.finish_unchecked()
    assert await bookie.stop() is None
    await bookie.boot(DurabilityMode.SYNC)
    bookie.begin_trace()
    await bookie.retract_loss(ledger)
    await bookie.flush()
    assert not any(await bookie.clear(ledger))


async def deletion(bookie: RecordedBookie) -> None:
    """S40: a ledger is deleted and collected; its tombstone refuses."""
    await bookie.boot()
    one, two = await bookie.ledger(), await bookie.ledger()
    await bookie.add(one, 0, 2)
    await bookie.add(two, 0, 2)
    bookie.begin_trace()
    await bookie.delete_ledger(one)
    assert await bookie.collect() == 1
    await bookie.add(two, 2)


async def compaction(bookie: RecordedBookie) -> None:
    """A log file with little left alive gives its entries away and goes."""
    await bookie.boot()
    dead, alive = await bookie.ledger(), await bookie.ledger()
    await bookie.add(dead, 0, 2, entry_bytes=3500)
    await bookie.add(alive, 0)
    await bookie.add(dead, 2, 2, entry_bytes=3500)
    await bookie.add(alive, 1, entry_bytes=3500)
    await bookie.flush()
    await bookie.delete_ledger(dead)
    await bookie.collect()
    bookie.begin_trace()
    report = bookie.compact()
    assert report.files_deleted and report.frames_copied
    await bookie.flush()


async def index_rebuild(bookie: RecordedBookie) -> None:
    """`bookie index rebuild` at rest, then a boot."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 3)
    await bookie.fence(ledger)
    await bookie.stop()
    bookie.begin_trace()
    bookie.rebuild_index(0)
    await bookie.boot()


async def index_lost(bookie: RecordedBookie) -> None:
    """An index is gone: a boot refuses, a rebuild makes one from the log, the next boot marks."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 3)
    await bookie.fence(ledger)
    await bookie.stop()
    bookie.begin_trace()
    bookie.lose_index(0)
    await bookie.fail_to_boot()
    bookie.rebuild_index(0)
    await bookie.boot()


async def drain(bookie: RecordedBookie) -> None:
    """The drain begins, and is cancelled."""
    await bookie.boot()
    bookie.begin_trace()
    await bookie.set_draining(True)
    await bookie.set_draining(False)


async def stop_with_a_stuck_marker(bookie: RecordedBookie) -> None:
    """All is flushed, and a marker cannot be removed: the stop counts as unclean."""
    await bookie.boot()
    await bookie.add(await bookie.ledger(), 0, 3)
    bookie.begin_trace()
    bookie.disk.fail("syncdir", pattern="ledger-0")
    assert await bookie.stop() is not None
    bookie.kill()
    await bookie.boot()


async def stop_with_a_full_disk(bookie: RecordedBookie) -> None:
    """S28: the last flush finds no space, so the marker stays."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 3)
    bookie.begin_trace()
    bookie.disk.fail("commit", pattern="index.sqlite", error=errno.ENOSPC)
    assert await bookie.stop() is not None
    bookie.kill()
    await bookie.boot()


async def stop_with_a_failed_sync(bookie: RecordedBookie) -> None:
    """S28: the last sync of the log fails, so the marker stays."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0, 3)
    bookie.begin_trace()
    bookie.disk.fail("sync", pattern="*.log*", times=9)
    assert await bookie.stop() is not None
    bookie.kill()
    await bookie.boot()


async def restart_after_a_failed_sync(bookie: RecordedBookie) -> None:
    """A sync of the log fails, the process ends, the machine does not: what the page cache still
    shows may never have reached the disk."""
    await bookie.boot()
    ledger = await bookie.ledger()
    await bookie.add(ledger, 0)
    await bookie.flush()
    await bookie.add(ledger, 1)
    bookie.begin_trace()
    bookie.send_add(ledger, 2)
    bookie.disk.fail("sync", pattern="*.log*", times=9)
    with contextlib.suppress(StorageError):
        await bookie.flush()
    bookie.kill()
    await bookie.boot()
    await bookie.flush()


REBUILDING: Final = tuple(
    f"BootRefusedError: /bookie/ledger-{place}/index.sqlite is missing" for place in range(2)
)


_NEVER: Final = ("BootRefusedError: ledger 1 (/bookie/ledger-1) is empty",)
_ASKED: Final = ("BootRefusedError: a person is asked for approval",)


def _run(
    story: Story,
    mode: DurabilityMode = MEMORY,
    *,
    disks: int = 1,
    policy: FixPolicy = FixPolicy.AUTO,
    may_refuse: tuple[str, ...] = (),
) -> Run:
    name = story.__name__.replace("_", "-")
    suffix = "" if mode is MEMORY else f"-{mode.value}"
    return Run(name + suffix, story, boot_settings(mode, disks=disks, policy=policy), may_refuse)


RUNS: Final = (
    _run(first_boot, disks=2),
    *(_run(clean_stop, mode) for mode in DurabilityMode),
    _run(notes, disks=2),
    _run(boots_that_doubt_noted_ledgers, disks=2),
    *(_run(unclean_boot, mode) for mode in DurabilityMode),
    _run(boot_after_a_power_cut),
    _run(journal_after_memory),
    _run(memory_after_journal, JOURNAL),
    _run(ledger_disk_replaced, disks=2),
    _run(ledger_disk_replaced, JOURNAL),
    _run(idle_ledgers_on_a_replaced_disk, disks=2),
    _run(journal_disk_replaced),
    _run(journal_disk_replaced, JOURNAL),
    *(_run(adds, mode) for mode in DurabilityMode),
    *(_run(checkpoints_under_load, mode) for mode in DurabilityMode),
    *(_run(fences, mode) for mode in DurabilityMode),
    _run(journal_roll_and_trim, JOURNAL, disks=2),
    *(_run(log_roll, mode) for mode in DurabilityMode),
    _run(clearing, disks=2),
    _run(losses),
    _run(retraction, disks=2),
    _run(deletion),
    _run(compaction),
    _run(index_rebuild, may_refuse=REBUILDING),
    _run(index_lost, may_refuse=REBUILDING),
    _run(disk_put_back, disks=2, policy=FixPolicy.NEVER, may_refuse=_NEVER),
    _run(old_disk_put_back, may_refuse=_ASKED),
    _run(boots_with_a_failing_disk),
    _run(limbo_over_restarts),
    *(_run(restart_after_a_failed_sync, mode) for mode in DurabilityMode),
    _run(drain),
    _run(stop_with_a_stuck_marker),
    _run(stop_with_a_full_disk),
    _run(stop_with_a_failed_sync),
)
