"""Stories of boots on disks with damage: files lost, torn, rotten, strange; and second boots."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from bookie.testing.simulation.disk import MachineDisk
from boot_scenes import ALL, FIRST, JOURNAL, ONE, SECOND, Scenes
from fleet_disks import files, flip, gone, put
from fleet_state import state_of
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

Damage = Callable[[MachineDisk], None]


def _without(*names: str) -> Damage:
    """These files of all directories are gone."""

    def damage(disk: MachineDisk) -> None:
        for directory in ALL:
            for name in names:
                gone(disk, directory / name)

    return damage


def _lost(path: Path) -> Damage:
    return lambda disk: gone(disk, path)


def _content(path: Path, content: bytes) -> Damage:
    return lambda disk: put(disk, path, content)


def _numbered(directory: Path, which: int, act: Callable[[MachineDisk, Path], None]) -> Damage:
    """Something happens to one of the numbered files."""
    suffix = ".jnl" if directory.name == "journal" else ".log"
    return lambda disk: act(disk, files(disk, directory, suffix)[which])


def _emptied(directory: Path) -> Damage:
    def damage(disk: MachineDisk) -> None:
        for name in list(disk.directories[directory].seen):
            gone(disk, directory / name)

    return damage


def _rot(offset: int) -> Callable[[MachineDisk, Path], None]:
    return lambda disk, path: flip(disk, path, offset)


def _tail(disk: MachineDisk, path: Path) -> None:
    """Bytes that are no record behind the last good one."""
    content = disk.content(path)
    put(disk, path, content.rstrip(b"\0") + b"torn" * 8 + bytes(4096))


def _cut_short(disk: MachineDisk, path: Path) -> None:
    put(disk, path, disk.content(path)[:5000])


def _other_version(disk: MachineDisk) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.deserialize(disk.content(FIRST / "index.sqlite"))
        database.execute("PRAGMA user_version = 2")
        put(disk, FIRST / "index.sqlite", database.serialize())


def _rebuild_was_interrupted(disk: MachineDisk) -> None:
    put(disk, FIRST / "index.sqlite.old", disk.content(FIRST / "index.sqlite"))
    gone(disk, FIRST / "index.sqlite")


def _rebuild_left(disk: MachineDisk) -> None:
    put(disk, FIRST / "index.sqlite.old", b"")
    put(disk, FIRST / "index.sqlite.new", b"")


def _strange(disk: MachineDisk) -> None:
    gone(disk, FIRST / "STAMP")
    for name in ("photo.jpg", ".hidden", "lost+found", "a", "b", "c", "d", "e"):
        put(disk, FIRST / name, b"of somebody")


JOURNALS: Final = JOURNAL / "journal"
LOGS: Final = FIRST / "log"
DAMAGES: Final[dict[str, Damage]] = {
    "the journal's marker lost": _lost(JOURNAL / "DIRTY"),
    "one marker lost": _lost(SECOND / "DIRTY"),
    "all markers lost": _without("DIRTY"),
    "a marker torn": _content(FIRST / "DIRTY", b'{"bootEpoch": 1, "mo'),
    "a marker with another mode": _content(FIRST / "DIRTY", b'{"bootEpoch": 1, "mode": "sync"}'),
    "one stamp lost": _lost(FIRST / "STAMP"),
    "all stamps lost": _without("STAMP"),
    "stamps and markers lost": _without("STAMP", "DIRTY"),
    "a stamp torn": _content(FIRST / "STAMP", b'{"instance_id": "a'),
    "a stamp without fields": _content(FIRST / "STAMP", b'{"instance_id": "a"}'),
    "an index lost": _lost(FIRST / "index.sqlite"),
    "an index emptied": _content(FIRST / "index.sqlite", b""),
    "an index of garbage": _content(FIRST / "index.sqlite", b"SQLite format 3\0" + bytes(600)),
    "an index of another version": _other_version,
    "a rebuild interrupted": _rebuild_was_interrupted,
    "a rebuild that left files": _rebuild_left,
    "the journal emptied": _emptied(JOURNALS),
    "the journal's first file lost": _numbered(JOURNALS, 0, gone),
    "the journal's last file lost": _numbered(JOURNALS, -1, gone),
    "the journal's last header rotten": _numbered(JOURNALS, -1, _rot(40)),
    "the journal's first header rotten": _numbered(JOURNALS, 0, _rot(40)),
    "a journal's record rotten": _numbered(JOURNALS, -1, _rot(4110)),
    "a journal's first record rotten": _numbered(JOURNALS, 0, _rot(4110)),
    "a journal's torn end": _numbered(JOURNALS, -1, _tail),
    "the log emptied": _emptied(LOGS),
    "the log's first file lost": _numbered(LOGS, 0, gone),
    "the log's last file lost": _numbered(LOGS, -1, gone),
    "the log's first header rotten": _numbered(LOGS, 0, _rot(40)),
    "the log's last header rotten": _numbered(LOGS, -1, _rot(40)),
    "a log's frame rotten": _numbered(LOGS, -1, _rot(4110)),
    "a log's first frame rotten": _numbered(LOGS, 0, _rot(4110)),
    "a log's torn end": _numbered(LOGS, -1, _tail),
    "a log cut short": _numbered(LOGS, -1, _cut_short),
    "a strange file": _content(FIRST / "photo.jpg", b"a photo"),
    "a strange file and no stamp": _strange,
}


def _damaged(damage: Damage, *, flushes: bool, stops: bool) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        with fleet.quiet():
            await fleet.start(ONE)
            client = fleet.client()
            quorums = {"ensemble_size": 1, "write_quorum": 1, "ack_quorum": 1}
            writers = [await fleet.write(0, client=client, **quorums) for _ in range(2)]
            for flushes_now in (flushes, False):
                for writer in [*writers, *writers, *writers, *writers]:
                    await writer.wait_acked(writer.append_many([b"x" * 5000, b"x" * 5000]))
                if flushes_now and bookie.bookie is not None and bookie.bookie.control.booted:
                    bookie.bookie.control.booted.storage.maintenance.checkpoint()
            await client.close()
            if stops:
                await fleet.stop(ONE)
            else:
                fleet.crash(ONE)
        damage(bookie.disk)
        for what in ("boots", "boots once more, after a stop"):
            fleet.note(what)
            with fleet.quiet():
                await fleet.boot(ONE)
            fleet.say_boot(ONE)
            if bookie.is_serving:
                for line in state_of(bookie):
                    if " figure: " not in line:
                        fleet.record.note(line)
            else:
                break
            with fleet.quiet():
                await fleet.stop(ONE)

    return scenes


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage(damage: str, snapshot: SnapshotAssertion) -> None:
    """Half is flushed each time, and the other half is in the logs, or in the journal too."""
    found = []
    for mode, flushes, stops in (
        ("memory", True, True), ("memory", True, False), ("journal", True, False),
    ):  # fmt: skip
        scenes = _damaged(DAMAGES[damage], flushes=flushes, stops=stops)
        found.append(f"{mode}, {'stopped' if stops else 'killed'}")
        means: dict[str, Any] = {"settings": {"lease": {"seconds": 9, "confirmSeconds": 3}}}
        found.append(told(scenes, bookies=1, mode=mode, ledger_dirs=2, **means))
    assert snapshot(extension_class=Words) == "\n".join(found)
