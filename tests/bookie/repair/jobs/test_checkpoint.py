"""A repair that was cut off goes on, and a checkpoint never stands for what is not there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bookie.errors import SettingsError
from bookie.repair.engine.engine import EngineRun
from bookie.repair.jobs.checkpoint import AGE_MAX_S, FolderCheckpoint
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.digests import DigestSettings
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_repair import LedgerRepair, RepairSettings
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask
from bookie.repair.reports.printing import Say
from repair_lab import SETTINGS, RepairLab

LEDGERS = 6
DEEP = replace(SETTINGS, digests=DigestSettings())


class Killed(Exception):
    """The repair's process ends here."""


@pytest.fixture
async def lab() -> RepairLab:
    lab = await RepairLab().start()
    for _ in range(LEDGERS):
        await lab.ledger(entries=10, last=9)
    await lab.crash(1, wipe=True)
    return lab


async def run(
    lab: RepairLab, folder: Path, *, settings: RepairSettings = SETTINGS, **options: Any
) -> dict[str, Any]:
    request = RepairRequest(engine="inline", settings=settings, checkpoint=folder)
    return await repair(lab.cluster, request, **options)


async def cut_off(lab: RepairLab, folder: Path, *, done: int) -> None:
    """A run whose process dies when so many ledgers are done."""

    async def engine(
        _name: str, tasks: Sequence[LedgerTask], _same: SameCluster, _say: Say, told: Done
    ) -> EngineRun:
        await LedgerRepair(lab.cluster, SETTINGS, told).repair(tasks[:done])
        raise Killed

    with pytest.raises(Killed):
        request = RepairRequest(engine="spark-local", settings=SETTINGS, checkpoint=folder)
        await repair(lab.cluster, request, spark=engine)


def lines_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def is_whole(lab: RepairLab) -> bool:
    return all(lab.held(1, ledger_id) == list(range(10)) for ledger_id in lab.fleet[1].ledgers)


async def test_a_repair_that_was_cut_off_goes_on_and_ends_the_same(
    lab: RepairLab, tmp_path: Path
) -> None:
    await cut_off(lab, tmp_path, done=4)
    result = await run(lab, tmp_path)
    assert (result["ledgers"]["done_before"], result["ledgers"]["considered"]) == (4, 2)
    assert result["exit_code"] == 0 and result["ledgers"]["cleared"] == LEDGERS
    assert is_whole(lab) and result["audit_after"]["ok"] == 10 * LEDGERS


async def test_what_was_copied_before_the_end_is_flushed_by_the_next_run(
    lab: RepairLab, tmp_path: Path
) -> None:
    await cut_off(lab, tmp_path, done=LEDGERS)
    lab.fleet[1].clear(next(iter(lab.fleet[1].ledgers)))
    await run(lab, tmp_path)
    assert ("flush", lab.ids[1]) in lab.control.asked
    await lab.crash(1)
    assert is_whole(lab), "nothing of it was in memory only"


async def test_a_bookie_that_lost_its_disk_since_is_filled_again(
    lab: RepairLab, tmp_path: Path
) -> None:
    await cut_off(lab, tmp_path, done=LEDGERS)
    await lab.crash(1, wipe=True)
    result = await run(lab, tmp_path)
    assert result["ledgers"]["done_before"] == 0
    assert is_whole(lab) and (result["exit_code"], result["audit_after"]["missing"]) == (0, 0)


async def test_a_ledger_whose_metadata_changed_is_repaired_again(
    lab: RepairLab, tmp_path: Path
) -> None:
    await cut_off(lab, tmp_path, done=LEDGERS)
    found = await lab.store.read_ledger(await anyone(lab))
    await lab.store.write_ledger(found.value, version=found.version)
    result = await run(lab, tmp_path)
    assert result["ledgers"]["done_before"] == LEDGERS - 1


async def anyone(lab: RepairLab) -> Any:
    return await anext(lab.store.ledger_ids())


async def test_a_run_that_comes_to_its_end_leaves_no_lines(lab: RepairLab, tmp_path: Path) -> None:
    await cut_off(lab, tmp_path, done=3)
    assert len(lines_in(tmp_path)) == 1
    await run(lab, tmp_path)
    assert lines_in(tmp_path) == []


async def test_indexes_that_agreed_do_not_stand_for_copies_that_were_read(
    lab: RepairLab, tmp_path: Path
) -> None:
    await cut_off(lab, tmp_path, done=LEDGERS)
    result = await run(lab, tmp_path, settings=DEEP)
    assert result["ledgers"]["done_before"] == 0


async def test_the_checkpoint_of_another_cluster_is_refused_by_name(
    lab: RepairLab, tmp_path: Path
) -> None:
    checkpoint(tmp_path, instance_id="other").add([LedgerOutcome(1, "CLOSED")])
    with pytest.raises(SettingsError, match="is of cluster other"):
        await run(lab, tmp_path)


def checkpoint(folder: Path, *, instance_id: str = "ours", at: float = 0.0) -> FolderCheckpoint:
    folder.mkdir(exist_ok=True)
    return FolderCheckpoint(folder, instance_id, "run", clock=lambda: at)


def test_a_line_cut_off_in_the_middle_does_not_count(tmp_path: Path) -> None:
    checkpoint(tmp_path).add([LedgerOutcome(1, "CLOSED", version=3), LedgerOutcome(2, "CLOSED")])
    path = tmp_path / "run.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    assert {i: o.version for i, o in checkpoint(tmp_path).load().items()} == {1: 3}


def test_what_is_blocked_is_not_done(tmp_path: Path) -> None:
    checkpoint(tmp_path).add([LedgerOutcome(1, "OPEN", reason="Undecidable")])
    assert checkpoint(tmp_path).load() == {}


def test_old_lines_do_not_count(tmp_path: Path) -> None:
    checkpoint(tmp_path).add([LedgerOutcome(1, "CLOSED")])
    assert checkpoint(tmp_path, at=AGE_MAX_S + 1).load() == {}


def test_a_file_that_no_repair_wrote_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("hello\n")
    with pytest.raises(SettingsError, match=r"notes.jsonl.*remove it"):
        checkpoint(tmp_path).load()


def test_everything_about_a_ledger_survives(tmp_path: Path) -> None:
    outcome = LedgerOutcome(7, "CLOSED", entries_copied=3, touched=("a", "b"), version=2)
    checkpoint(tmp_path).add([outcome])
    assert checkpoint(tmp_path).load() == {7: outcome}
