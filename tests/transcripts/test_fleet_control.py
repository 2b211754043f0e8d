"""What a bookie answers on its control plane: every call, of every kind of ledger, in every phase.

A call asks, and the bookie decides. So each story asks about ledgers that differ in one fact, asks
again, and asks while the metadata store is away or changes in the middle.
"""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.wire.admin import bookie_admin_pb2 as pb
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME: Final = "bookie-0"
THREE: Final = (NAME, "bookie-1", "bookie-2")
Change = Callable[[LedgerMetadata], LedgerMetadata]


def ranges(*pairs: tuple[int, int]) -> list[Any]:
    return [pb.EntryRange(first=first, last=last) for first, last in pairs]


async def change(fleet: Fleet, ledger_id: LedgerId, how: Change) -> None:
    """Somebody else writes the metadata of the ledger."""
    with fleet.quiet():
        store = fleet.stores["client"]
        found = await store.read_ledger(ledger_id)
        await store.write_ledger(how(found.value), version=found.version)


def without_it(metadata: LedgerMetadata) -> LedgerMetadata:
    """Its writer has replaced the bookie from entry 2 on."""
    others = Fragment(EntryId(2), tuple(BookieId(f"bookie-{n}") for n in (3, 1, 2)))
    return metadata.with_fragments((*metadata.fragments, others))


def closed_at(end: int) -> Change:
    return lambda metadata: metadata.closed(EntryId(end), length=5 * (end + 1))


CHANGES: Final[dict[str, Change | None]] = {
    "open": None,
    "open, and replaced": without_it,
    "closed at its end": closed_at(1),
    "closed beyond it": closed_at(3),
    "closed beyond it, and replaced": lambda metadata: closed_at(3)(without_it(metadata)),
    "in recovery": LedgerMetadata.in_recovery,
    "in recovery, and replaced": lambda metadata: without_it(metadata).in_recovery(),
    "closed and empty": closed_at(-1),
}


async def made(fleet: Fleet) -> dict[str, LedgerId]:
    """A ledger for each kind, with entries 0 and 1 durable here; and a crash after that."""
    with fleet.quiet():
        await fleet.begin()
        line, ids = await fleet.line(NAME), {}
        for kind, how in CHANGES.items():
            ids[kind] = await fleet.ledger(*THREE)
            await line.add(ids[kind], 0, 2)
            if how is not None:
                await change(fleet, ids[kind], how)
        for kind in ("deleted", "of no readable metadata"):
            ids[kind] = await fleet.ledger(*THREE)
            await line.add(ids[kind], 0, 2)
        await fleet.at(NAME, fleet.services(NAME).marks.flush())
        await fleet.stores["client"].delete_ledger(ids["deleted"])
        fleet.crash(NAME)
        fleet.cluster.garbled.add(ids["of no readable metadata"])
        await fleet.start()
    for kind, ledger_id in ids.items():
        fleet.record.note(f"-- ledger {ledger_id} is {kind}")
    return ids


# Marks
async def _marks(fleet: Fleet) -> None:
    ids = await made(fleet)
    every = [*ids.values(), 77]
    requests: list[dict[str, Any]] = [
        {}, {"include_unchecked": True}, {"limit": 2}, {"after_ledger_id": 4, "limit": 2},
        {"after_ledger_id": 3, "include_unchecked": True, "limit": 7},
    ]  # fmt: skip
    for request in requests:
        await fleet.ask(NAME, "ListLimbo", **request)
    await fleet.ask(NAME, "GetAvailability", ledger_ids=every)
    fleet.note("the metadata store is away")
    fleet.weather.is_out = True
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=every[:2])
    fleet.weather.is_out = False
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=every)
    fleet.say_state()
    fleet.note("again, once the rest is closed, readable or replaced")
    fleet.cluster.garbled.clear()
    for kind in ("open", "in recovery", "in recovery, and replaced", "of no readable metadata"):
        await change(fleet, ids[kind], closed_at(1))
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=[*every, every[0]])
    line = await fleet.line(NAME)
    for kind in ("closed beyond it", "closed beyond it, and replaced"):
        await line.add(ids[kind], 2, 2, flags=1)
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=[ids[kind] for kind in ids if "beyond" in kind])
    await asyncio.sleep(2)
    await fleet.ask(NAME, "GetAvailability", ledger_ids=every)
    await fleet.ask(NAME, "GetHealth")
    fleet.say_state()


def test_marks_of_every_kind_of_ledger(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_marks, bookies=1, shows_messages=False)


async def _last_marks(fleet: Fleet) -> None:
    with fleet.quiet():
        await fleet.begin()
        line = await fleet.line(NAME)
        ids = [await fleet.ledger(*THREE) for _ in range(2)]
        for ledger_id in ids:
            await line.add(ledger_id, 0, 2)
        await change(fleet, ids[1], closed_at(1))
        late = await fleet.ledger("bookie-3", *THREE[1:])
        await change(fleet, late, LedgerMetadata.in_recovery)
        fleet.crash(NAME)
        fleet.bookies[NAME].wipe(0)
        await fleet.start()
        line = await fleet.line(NAME)
        for ledger_id in ids:
            await line.add(ledger_id, 0, 2, flags=1)
        await change(fleet, ids[0], closed_at(1))
    fleet.note("its journal was lost; a ledger in recovery may come to name it")
    await fleet.ask(NAME, "ListLimbo", include_unchecked=True)
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=[*ids, late])
    await fleet.ask(NAME, "GetAvailability", ledger_ids=[*ids, late])
    await asyncio.sleep(1.6)
    fleet.note("its metadata cannot be read for a while")
    fleet.cluster.garbled.add(late)
    await asyncio.sleep(3.2)
    fleet.cluster.garbled.clear()
    fleet.note("then it is closed, and names it")
    ends = Fragment(EntryId(2), tuple(map(BookieId, THREE)))
    how = closed_at(2)
    await change(fleet, late, lambda one: how(one.with_fragments((*one.fragments, ends))))
    await asyncio.sleep(1.6)
    await fleet.ask(NAME, "ListLimbo", include_unchecked=True)
    for _ in range(2):
        await fleet.ask(NAME, "ClearLimbo", ledger_ids=[late])
        await fleet.seen("an entry is copied", line.add(late, 2, flags=1))
    fleet.weather.is_out = True
    await asyncio.sleep(3)
    fleet.weather.is_out = False
    await asyncio.sleep(5)
    await fleet.ask(NAME, "GetAvailability", ledger_ids=[*ids, late, 99])
    fleet.say_state()


def test_the_end_of_the_check(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_last_marks, bookies=1, shows_messages=False)


# Losses
async def _losses(fleet: Fleet) -> None:
    ids = await made(fleet)
    answered = list(THREE)
    cases: dict[str, dict[str, Any]] = {
        "nobody's": {"ledger_id": 77, "ranges": ranges((2, 3))},
        "of no entry": {"ledger_id": ids["closed beyond it"]},
        "of one that is here": {"ranges": ranges((1, 2))},
        "backwards": {"ranges": ranges((3, 2))},
        "of a negative ledger": {"ledger_id": -1, "ranges": ranges((2, 3))},
        "not all answered": {"ranges": ranges((2, 3)), "answered_by": answered[:2]},
        "beyond the end": {"ranges": ranges((3, 4))},
        "all answered": {"ranges": ranges((3, 3))},
        "the same again": {"ranges": ranges((3, 3))},
        "and one more": {"ranges": ranges((2, 3)), "reason": "found"},
        "by a person, closed": {"ranges": ranges((2, 3)), "by_person": True},
        "open": {"ledger_id": ids["open"], "ranges": ranges((2, 3))},
        "by a person, open": {
            "ledger_id": ids["open"], "ranges": ranges((2, 3)), "by_person": True,
        },
        "in recovery": {"ledger_id": ids["in recovery"], "ranges": ranges((2, 3))},
        "by a person, in recovery": {
            "ledger_id": ids["in recovery"], "ranges": ranges((2, 2), (4, 9)), "by_person": True,
        },
        "by a person, not stored here": {
            "ledger_id": ids["in recovery, and replaced"], "ranges": ranges((2, 3)),
            "by_person": True,
        },
        "of no readable metadata": {
            "ledger_id": ids["of no readable metadata"], "ranges": ranges((2, 3)),
        },
        "deleted": {"ledger_id": ids["deleted"], "ranges": ranges((2, 3))},
    }  # fmt: skip
    for what, request in cases.items():
        fleet.note(what)
        defaults = {"ledger_id": ids["closed beyond it"], "reason": "gone", "answered_by": answered}
        await fleet.ask(NAME, "RecordLoss", **(defaults | request))
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=[ids["closed beyond it"], ids["in recovery"]])
    await fleet.ask(
        NAME, "GetAvailability", ledger_ids=[ids["closed beyond it"], ids["in recovery"]]
    )
    fleet.note("by a person, in more ranges than are named")
    many = ranges(*((number, number) for number in range(30, 54, 2)))
    gone = {"ledger_id": ids["in recovery"], "ranges": many, "by_person": True, "reason": "gone"}
    await fleet.ask(NAME, "RecordLoss", **gone)
    fleet.note("the metadata store is away")
    fleet.weather.is_out = True
    await fleet.ask(
        NAME, "RecordLoss", ledger_id=ids["in recovery"], ranges=ranges((20, 20)), by_person=True
    )
    fleet.weather.is_out = False
    fleet.say_state()
    await retractions(fleet, ids)


async def retractions(fleet: Fleet, ids: dict[str, LedgerId]) -> None:
    closed, recovering = ids["closed beyond it"], ids["in recovery"]
    line = await fleet.line(NAME)
    cases: dict[str, dict[str, Any]] = {
        "no reason": {"ledger_id": closed, "reason": " "},
        "backwards": {"ledger_id": closed, "ranges": ranges((3, 2))},
        "nothing on record": {"ledger_id": ids["open"]},
        "others than on record": {"ledger_id": closed, "ranges": ranges((0, 1))},
        "of no readable metadata": {"ledger_id": ids["of no readable metadata"]},
        "nobody's": {"ledger_id": 77},
        "a part": {"ledger_id": closed, "ranges": ranges((3, 9))},
        "a part again": {"ledger_id": closed, "ranges": ranges((3, 9))},
        "in recovery": {"ledger_id": recovering, "ranges": ranges((4, 5))},
        "the rest, by nobody": {"ledger_id": recovering, "retracted_by": ""},
    }
    for what, request in cases.items():
        fleet.note(what)
        await fleet.ask(
            NAME, "RetractLoss", **({"reason": "wrong", "retracted_by": "ann"} | request)
        )
    fleet.note("what is on record is here: a flush takes it back")
    await fleet.seen("an entry is copied", line.add(closed, 2, flags=1))
    await fleet.ask(NAME, "Flush")
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=[closed])
    await fleet.ask(NAME, "GetHealth")
    fleet.say_state()


def test_losses_and_retractions(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_losses, bookies=1, shows_messages=False)


# Clearing while a loss is taken back
async def _marked_again(fleet: Fleet) -> None:
    with fleet.quiet():
        await fleet.begin()
        line = await fleet.line(NAME)
        ids = [await fleet.ledger(*THREE) for _ in range(8)]
        for ledger_id in ids:
            await line.add(ledger_id, 0, 2)
            await change(fleet, ledger_id, closed_at(3))
        fleet.crash(NAME)
        await fleet.start()
        line = await fleet.line(NAME)
        for ledger_id in ids:
            await line.add(ledger_id, 0, 2, flags=1)
            gone = {"ledger_id": ledger_id, "ranges": ranges((2, 3)), "answered_by": THREE}
            await fleet.ask(NAME, "RecordLoss", **gone)
    fleet.network.lags[NAME, "metadata"] = 0.1
    for late_ms, ledger_id in enumerate(ids[:-1]):
        fleet.note(
            f"a loss of ledger {ledger_id} is taken back {late_ms} ms after a clearing begins"
        )
        clearing = asyncio.ensure_future(fleet.ask(NAME, "ClearLimbo", ledger_ids=[ledger_id]))
        await asyncio.sleep(late_ms / 1000)
        await fleet.ask(NAME, "RetractLoss", ledger_id=ledger_id, reason="wrong")
        await clearing
    fleet.note("the metadata store is away")
    fleet.weather.is_out = True
    await fleet.ask(NAME, "RetractLoss", ledger_id=ids[-1], reason="wrong")
    await fleet.ask(NAME, "RecheckEntries", ledger_id=ids[-1], ranges=ranges((0, 1)))
    await line.add(ids[-1], 2, flags=1)
    await fleet.ask(NAME, "Flush")
    fleet.weather.is_out = False
    await fleet.ask(NAME, "Flush")
    fleet.say_state()


def test_a_loss_that_is_taken_back_meanwhile(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_marked_again, bookies=1, shows_messages=False)


# Copies
async def _rechecks(fleet: Fleet) -> None:
    await fleet.begin()
    line = await fleet.line(NAME)
    with fleet.quiet():
        ids = [await fleet.ledger(NAME, ack=1) for _ in range(4)]
        old = await fleet.ledger(NAME, ack=1)
        for ledger_id in (*ids, old):
            await line.add(ledger_id, 0, 3)
            await line.add(ledger_id, 3, 3, is_wrong=True)
            await line.add(ledger_id, 6, 2)
    fleet.cluster.garbled.add(ids[1])
    await change(fleet, old, lambda one: replace(one, password=b"", password_is_stored=False))
    cases: dict[str, dict[str, Any]] = {
        "a part": {"ledger_id": ids[0], "ranges": ranges((2, 4))},
        "the same again": {"ledger_id": ids[0], "ranges": ranges((2, 4))},
        "the rest, in two ranges": {"ledger_id": ids[0], "ranges": ranges((0, 1), (5, 99))},
        "of none": {"ledger_id": ids[0]},
        "too many": {"ledger_id": ids[0], "ranges": ranges((0, 1_000_000))},
        "just as many as may be": {"ledger_id": ids[3], "ranges": ranges((0, 999_999))},
        "of no readable metadata": {"ledger_id": ids[1], "ranges": ranges((0, 9))},
        "nobody's": {"ledger_id": 77, "ranges": ranges((0, 9))},
        "of no password": {"ledger_id": old, "ranges": ranges((0, 9))},
    }
    for what, request in cases.items():
        fleet.note(what)
        await fleet.ask(NAME, "RecheckEntries", **request)
    fleet.note("a good copy takes its place; two ask about it at once")
    await fleet.seen("a copy", line.add(ids[0], 3, 2, flags=1))
    asked = [
        fleet.ask(NAME, "RecheckEntries", ledger_id=i, ranges=ranges((0, 9)))
        for i in (ids[0], ids[2])
    ]
    await asyncio.gather(*asked)
    await fleet.seen("a read", line.read(ids[0], 0, 9))
    fleet.note("the disk finds no space, and then fails")
    disk = fleet.bookies[NAME].disk
    await line.add(ids[1], 8)
    fleet.cluster.garbled.clear()
    disk.fail("commit", pattern="index.sqlite", error=errno.ENOSPC)
    for _ in range(2):
        await fleet.ask(NAME, "RecheckEntries", ledger_id=ids[1], ranges=ranges((0, 9)))
    fleet.say_state()


def test_copies_that_are_wrong(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_rechecks, bookies=1, shows_messages=False)
