"""Copies of a fleet: read whole, found corrupt, replaced, in many runs, and from many sources."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from bookie.frames.entry import DigestType
from bookie.ids import BookieId
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend import copy
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import RepairSettings
from fleet_jobs import (
    at,
    audited,
    back,
    delete,
    flush,
    lines_of_page,
    made,
    put_together,
    repaired,
    restarted,
    rewrite,
    say_rest,
)
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

DEEP = RepairSettings(digests=DigestSettings())
SMALL = CopySettings(read_bytes=200, frame_bytes=150, in_flight_bytes=600)


@pytest.mark.parametrize("digest", DigestType)
def test_wrong_digests(snapshot: SnapshotAssertion, digest: DigestType) -> None:
    """On one member, then on two of three: found only by reading, and replaced by the right one."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        wrong = {0: (1,), 1: (1, 2)}
        await made(fleet, entries=4, end=3, wrong=wrong, digest_type=digest)
        document = await audited(fleet, digests=DigestSettings())
        assert document["digests_verified"]
        await repaired(fleet, settings=DEEP)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_corrupt_copies_everywhere(snapshot: SnapshotAssertion) -> None:
    """There is no right one: they stay, and are named; of another entry one is left, on one."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        wrong = {0: (1, 2), 1: (1, 2), 2: (1,)}
        await made(fleet, entries=3, end=2, wrong=wrong)
        await made(fleet, entries=3, end=2, wrong={0: (0,)}, lacks={1: (0,), 2: (0,)})
        await repaired(fleet, settings=DEEP)
        fleet.note("a plain one sees nothing")
        await repaired(fleet)
        document = await audited(fleet, digests=DigestSettings())
        for line in lines_of_page(document):
            fleet.record.note(line)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_rot(snapshot: SnapshotAssertion) -> None:
    """Bits of frames change on two disks: their bookies say that they cannot read them."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, end=5)
        await put_together(fleet, one, range(3), on="012", size=50)
        await put_together(fleet, one, range(3, 6), on="012", size=50)
        await flush(fleet)
        await restarted(fleet, "bookie-0", "bookie-1", "bookie-2")
        fleet.bookies["bookie-0"].rot_of_frames(0.3)
        fleet.bookies["bookie-2"].rot_of_frames(0.8)
        await audited(fleet, digests=DigestSettings())
        await repaired(fleet, settings=DEEP)
        await audited(fleet, digests=DigestSettings())
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_corrupt_source(snapshot: SnapshotAssertion) -> None:
    """A plain repair reads from it, notices, and asks the next; if none is right, it says so."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(3):
            await made(fleet, entries=4, end=3, wrong={1: (1,), 2: (2,)}, lacks={0: (0, 1, 2)})
        await made(fleet, entries=3, end=2, wrong={1: (1,), 2: (1,)}, lacks={0: (0, 1, 2)})
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_metadata_without_a_digest_type(snapshot: SnapshotAssertion) -> None:
    """It is guessed: a digest may be right, never wrong."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        old: dict[str, Any] = {"password": b"", "password_is_stored": False}
        await made(fleet, entries=3, end=2, wrong={1: (1,)}, lacks={2: (2,)}, **old)
        await audited(fleet, digests=DigestSettings())
        await repaired(fleet, settings=DEEP)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_copies_that_nobody_could_read(snapshot: SnapshotAssertion) -> None:
    """A bookie lists them and cannot read them; the metadata have another password."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=24, end=23, lacks={1: range(3, 22)})
        await made(fleet, entries=2, end=1)
        one = await made(fleet, entries=2, end=1)
        rewrite(fleet, one.ledger_id, lambda found: replace(found, password=b"another"))
        await restarted(fleet, "bookie-1")
        fleet.bookies["bookie-1"].disk.broken["log"] = "read"
        digests = DigestSettings(read_bytes=100, reads_per_bookie=1, bytes_per_second=10_000)
        await audited(fleet, digests=digests)
        fleet.bookies["bookie-1"].disk.broken.clear()
        await repaired(fleet, settings=replace(DEEP, digests=digests))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_a_ledger_that_moves_while_it_is_read(snapshot: SnapshotAssertion) -> None:
    """Deleted, moved to others, always another: no copy of it is called corrupt."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        gone, busy, moved = [await made(fleet, entries=2, end=1, wrong={1: (1,)}) for _ in range(3)]
        at(fleet, "READ#", partial(delete, fleet, gone.ledger_id))
        for turn in range(1, 40, 2):
            at(
                fleet,
                "> bookie-1: READ#",
                partial(rewrite, fleet, busy.ledger_id, lambda found: found),
                nth=turn,
            )

        def moves() -> None:
            fragments = (
                replace(
                    moved.fragments[0],
                    ensemble=(*moved.fragments[0].ensemble[::2], BookieId("bookie-3")),
                ),
            )
            rewrite(fleet, moved.ledger_id, lambda found: found.with_fragments(fragments))

        at(fleet, "> bookie-1: READ#", moves, nth=6)
        await audited(fleet, digests=DigestSettings())
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_copies_in_many_runs(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of two entries, runs of three, at most three windows at once; stripes in pieces."""
    monkeypatch.setattr(copy, "WINDOWS_AHEAD_MAX", 2)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=12, end=11, lacks={0: range(11)})
        await made(fleet, (0, "0123"), write=2, entries=16, end=15, lacks={1: range(12)})
        await made(fleet, entries=60, end=59, lacks={2: (1, 3, 30, 31, 50)})
        await repaired(fleet, settings=RepairSettings(copy=SMALL))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_patterns_that_are_cut(snapshot: SnapshotAssertion) -> None:
    """A run of a stripe ends where a sequence does, though there is room for one entry more."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, (0, "0123"), write=3, entries=16, end=15, lacks={1: range(16)})
        await made(fleet, (0, "0123"), write=2, entries=16, end=15, lacks={0: range(16)})
        bounds = replace(SMALL, read_bytes=4_000, in_flight_bytes=8_000)
        await repaired(fleet, settings=RepairSettings(copy=bounds))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_deep_repair_of_a_bookie_that_has_forgotten(snapshot: SnapshotAssertion) -> None:
    """What it lacks is copied, and not called unread; a wrong copy is replaced there as well."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2, wrong={0: (1,)}, flushed=False)
        await made(fleet, entries=3, wrong={2: (0,)}, flushed=False)
        await back(fleet, "bookie-1")
        await repaired(fleet, settings=DEEP)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_whole_frames(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    """They go on as they are; not if a part is wanted only, or one of their entries is wrong."""
    monkeypatch.setattr(copy, "WHOLE_BYTES_MIN", 200)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, end=11)
        for first in (0, 4, 8):
            await put_together(fleet, one, range(first, first + 4), on="02", size=60)
        await put_together(fleet, one, range(4, 6), on="1", size=60)
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def _both_go_away(fleet: Fleet) -> None:
    for name in ("bookie-0", "bookie-2"):
        at(fleet, f"> {name}: READ#", partial(fleet.crash, name), nth=2)


REFUSALS: dict[str, Callable[[Fleet], object]] = {
    "cannot-write": lambda fleet: fleet.bookies["bookie-1"].disk.broken.__setitem__("log", "write"),
    "goes-away": lambda fleet: at(
        fleet, "> bookie-1: ADD_RUN", partial(fleet.crash, "bookie-1"), nth=2
    ),
    "swallows": lambda fleet: at(
        fleet, "> bookie-1: ADD_RUN", partial(fleet.network.block, "repair", "bookie-1"), nth=2
    ),
    "source-goes-away": lambda fleet: at(
        fleet, "> bookie-2: READ#", partial(fleet.crash, "bookie-2"), nth=2
    ),
    "both-sources-go-away": _both_go_away,
    "reads-fail": lambda fleet: fleet.bookies["bookie-2"].disk.broken.__setitem__("log", "read"),
}


@pytest.mark.parametrize("way", REFUSALS)
def test_a_copy_that_is_cut_short(snapshot: SnapshotAssertion, way: str) -> None:
    """By the bookie that is to get it, or by those that have it; then all is well again."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(2):
            await made(fleet, entries=8, end=7, lacks={1: range(8)})
        await restarted(fleet, "bookie-0", "bookie-2")
        REFUSALS[way](fleet)
        await repaired(fleet, settings=RepairSettings(copy=SMALL))
        with fleet.quiet():
            fleet.network.heal()
            for bookie in fleet.bookies.values():
                bookie.mend()
            await fleet.start()
        fleet.note("all is well")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_bookies_that_take_no_new_ledgers(snapshot: SnapshotAssertion) -> None:
    """One drains, one is in limbo: what they lack is copied to them all the same."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2, lacks={1: (0,), 2: (1,)})
        await made(fleet, entries=2, flushed=False)
        with fleet.quiet():
            await fleet.handles().control.drain(BookieId("bookie-1"))
        await back(fleet, "bookie-2")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)
