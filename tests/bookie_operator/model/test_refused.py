"""The word for a refused boot, held against the sentences of bookies that do refuse."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.lock import FolderInUseError, FolderLock
from bookie.errors import BootRefusedError
from bookie.ids import LedgerId
from bookie.storage.index import INDEX_NAME
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie_operator.model.refused import RANKED, disks_named, refusal_reason
from boot_lab import ME, BootLab, lab

__all__ = ["lab"]
MINE = ("ok", "ok", "ok")


def index_is_gone(lab: BootLab) -> None:
    for path in lab.directory(1).glob(INDEX_NAME + "*"):
        path.unlink()


def index_is_rubbish(lab: BootLab) -> None:
    index_is_gone(lab)
    (lab.directory(1) / INDEX_NAME).write_bytes(b"rubbish" * 1000)


def logs_of(lab: BootLab) -> list[Path]:
    return sorted((lab.directory(1) / LOG_DIRECTORY).iterdir())


def log_is_gone(lab: BootLab) -> None:
    logs_of(lab)[-1].unlink()


def log_is_short(lab: BootLab) -> None:
    with logs_of(lab)[-1].open("r+b") as file:
        file.truncate(4096)


def log_is_rubbish(lab: BootLab) -> None:
    with logs_of(lab)[-1].open("r+b") as file:
        file.write(b"rubbish" * 100)


def stamp_is_rubbish(lab: BootLab) -> None:
    (lab.directory(1) / "STAMP").write_text("rubbish")


def disks_are_swapped(lab: BootLab) -> None:
    lab.swap(1, 2)


def disk_is_new(lab: BootLab) -> None:
    lab.wipe(1)


async def refusal(lab: BootLab, damage: Callable[[BootLab], None]) -> str:
    """The word for the refusal of a boot after a clean stop and this."""
    await lab.boot()
    for ledger in range(4):
        await lab.add(LedgerId(ledger), 0, 3)
    await lab.stop()
    damage(lab)
    begun = lab.begin(policy=FixPolicy.NEVER)
    with pytest.raises(BootRefusedError) as told:
        lab.now = await begun.run()
    return refusal_reason([verdict.value for verdict in begun.progress.verdicts], str(told.value))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (index_is_gone, "IndexLost"),
        (index_is_rubbish, "IndexLost"),
        (log_is_gone, "LogLost"),
        (log_is_short, "LogLost"),
        (log_is_rubbish, "LogLost"),
        (stamp_is_rubbish, "TornStamp"),
        (disks_are_swapped, "SwappedDisk"),
        (disk_is_new, "FixNotAllowed"),
    ],
)
async def test_d5_what_is_lost_names_the_refusal(
    lab: BootLab, damage: Callable[[BootLab], None], reason: str
) -> None:
    assert await refusal(lab, damage) == reason


async def test_d5_a_cookie_that_is_gone_names_it(lab: BootLab) -> None:
    await lab.boot()
    await lab.stop()
    del lab.cluster.cookies[ME]
    with pytest.raises(BootRefusedError) as told:
        await lab.boot()
    assert refusal_reason(MINE, str(told.value)) == "RefusedCookie"


def test_d5_folders_that_another_process_holds_name_it(tmp_path: Path) -> None:
    with FolderLock([tmp_path]), pytest.raises(FolderInUseError) as told:
        FolderLock([tmp_path]).acquire()
    assert refusal_reason((), str(told.value)) == "FoldersInUse"


@pytest.mark.parametrize(
    "sentence",
    [
        "the cookie of bookie-0 changed during this boot: another process uses this bookie id",
        "bookie bookie-0 is registered and alive at here:1, on other directories than these",
    ],
)
def test_d5_an_identity_that_another_has_names_it(sentence: str) -> None:
    assert refusal_reason(MINE, sentence) == "IdentityInUse"


def test_what_nobody_foresaw_is_a_refused_boot() -> None:
    assert refusal_reason(MINE, "something new") == "RefusedBoot" and RANKED[-1] == "RefusedBoot"


@pytest.mark.parametrize(
    ("message", "disks"),
    [
        ("/data/ledger-1/index.sqlite is missing", ["ledger-1"]),
        ("run `bookie index rebuild` for /data/ledger-10", ["ledger-10"]),
        ("fleet/volumes/bookie-0/ledger-1: the newest file is 3", ["ledger-1"]),
        ("nothing is named", []),
    ],
)
def test_d5_the_disk_is_known_by_its_folder(message: str, disks: list[str]) -> None:
    assert disks_named(message, ["journal", "ledger-1", "ledger-10"]) == disks
