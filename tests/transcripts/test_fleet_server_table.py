"""What a bookie answers to each request of each kind of ledger, and what it makes durable for it.

A table of statuses is where a second branch shows: which of nine requests passes a fence, a mark, a
tombstone or a lost lease, with the right key and with a wrong one, and what is on record then.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pytest
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.server.marks import LossRequest
from bookie.wire.native import FLAG_FENCE, LacRequest, Op, ReadRequest
from fleet_line import KEY, Line, frame_of
from fleet_story import Fleet, told
from fleet_words import shown
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME: Final = "bookie-0"
WRONG: Final = b"?" * 20
REQUESTS: Final[dict[str, tuple[Op, int]]] = {
    "add": (Op.ADD_RUN, 0),
    "recovery add": (Op.ADD_RUN, 0),
    "read": (Op.READ, 0),
    "fencing read": (Op.READ, FLAG_FENCE),
    "read lac": (Op.READ_LAC, 0),
    "fencing read lac": (Op.READ_LAC, FLAG_FENCE),
    "write lac": (Op.WRITE_LAC, 0),
    "wait for lac": (Op.WAIT_LAC, 0),
    "force": (Op.FORCE, 0),
}
Make = Callable[[Fleet, Line], Awaitable[LedgerId]]


def body_of(name: str, ledger_id: LedgerId, key: bytes = KEY) -> bytes:
    """The body of a request that an ordinary ledger with entries 0 and 1 grants."""
    if "add" in name and "read" not in name:
        flags = FLAG_RECOVERY if name == "recovery add" else 0
        return key + frame_of(ledger_id, 2, lac=1, flags=flags)
    if name in ("read", "fencing read"):
        return ReadRequest(ledger_id, EntryId(0), EntryId(2), 1 << 20, key).encode()
    return LacRequest(ledger_id, key, EntryId(1), 50).encode()


async def written(
    fleet: Fleet, line: Line, *, fenced: bool = False, is_wrong: bool = False, **more: Any
) -> LedgerId:
    """A ledger with entries 0 and 1, whose writer knows that 0 is acknowledged."""
    ledger_id = await fleet.ledger(NAME, ack=1, **more)
    for number in (0, 1):
        await line.add(ledger_id, number, lac=number - 1, is_wrong=is_wrong)
    if fenced:
        await line.of_lac(Op.READ_LAC, ledger_id, fence=True)
    return ledger_id


async def unwritten(fleet: Fleet, _line: Line, **more: Any) -> LedgerId:
    return await fleet.ledger(NAME, ack=1, **more)


async def made_up(fleet: Fleet, _line: Line) -> LedgerId:
    """An id that the metadata store has given out, and nobody has used."""
    return await fleet.stores["client"].new_ledger_id()


async def lac_alone(fleet: Fleet, line: Line) -> LedgerId:
    ledger_id = await fleet.ledger(NAME, ack=1)
    await line.of_lac(Op.WRITE_LAC, ledger_id, 7)
    return ledger_id


async def rejected(fleet: Fleet, line: Line) -> LedgerId:
    ledger_id = await written(fleet, line, is_wrong=True)
    entries = EntrySet.from_ranges([(1, 1)])
    await fleet.at(NAME, fleet.services(NAME).marks.recheck(ledger_id, entries))
    return ledger_id


async def lost(fleet: Fleet, line: Line) -> LedgerId:
    ledger_id = await written(fleet, line, closed_at=2)
    entries = EntrySet.from_ranges([(2, 2)])
    wish = LossRequest(ledger_id, entries, False, "gone", frozenset((NAME,)))
    assert not await fleet.at(NAME, fleet.services(NAME).marks.record_loss(wish))
    return ledger_id


BEFORE: Final[dict[str, Make]] = {
    "limbo": written,
    "nothing was here at the crash": unwritten,
    "limbo and fenced": partial(written, fenced=True),
    "unchecked": partial(written, closed_at=1),
    "unchecked and fenced": partial(written, fenced=True, closed_at=1),
}
AFTER: Final[dict[str, Make]] = {
    "of no metadata": made_up,
    "nothing is here": unwritten,
    "nothing is here, closed": partial(unwritten, closed_at=1),
    "ordinary": written,
    "fenced": partial(written, fenced=True),
    "an explicit lac alone": lac_alone,
    "a copy is rejected": rejected,
    "a loss is recorded": lost,
    "deleted": written,
}


async def delete(fleet: Fleet, ledger_ids: Sequence[LedgerId]) -> None:
    """They are deleted from the metadata store, and collected."""
    store = fleet.stores["client"]
    for ledger_id in ledger_ids:
        await store.delete_ledger(ledger_id)
    for _look in range(2):
        await fleet.at(NAME, fleet.services(NAME).collector.run_pass())
        await asyncio.sleep(0.2)


def facts(fleet: Fleet, ledger_id: LedgerId) -> dict[str, str]:
    storage = fleet.services(NAME).booted.storage
    return {
        "record": shown(storage.record(ledger_id)),
        "held": shown(storage.held(ledger_id)),
        "lac": shown(storage.lac(ledger_id)),
    }


async def row(fleet: Fleet, line: Line, name: str, key: bytes, ledger_id: LedgerId) -> None:
    """One request, and what is on record of its ledger then that was not before."""
    before = facts(fleet, ledger_id)
    op, flags = REQUESTS[name]
    with fleet.quiet():
        words = await line.ask(op, body_of(name, ledger_id, key), flags=flags)
    after = facts(fleet, ledger_id)
    changes = [f"{what} {after[what]}" for what in after if after[what] != before[what]]
    found = f"{name}{' with a wrong key' * (key != KEY)}: {', '.join([words, *changes])}"
    fleet.record.note(
        "    " + re.sub(rf"(?<=ledger[ _]){ledger_id}|(?<=ledger_id=){ledger_id}", "N", found)
    )


class Table:
    """All requests of all kinds of ledgers, in one state of the bookie."""

    def __init__(self, crash: Callable[[Fleet], None], keys: Sequence[bytes]) -> None:
        self._crash, self._keys = crash, keys
        self._made: dict[str, list[LedgerId]] = {}

    async def _make(self, fleet: Fleet, line: Line, kinds: Mapping[str, Make]) -> None:
        for kind, make in kinds.items():
            count = len(REQUESTS) * len(self._keys)
            self._made[kind] = [await make(fleet, line) for _ in range(count)]

    async def prepare(self, fleet: Fleet) -> Line:
        with fleet.quiet():
            await fleet.begin()
            await self._make(fleet, await fleet.line(NAME), BEFORE)
            await fleet.at(NAME, fleet.services(NAME).marks.flush())
            self._crash(fleet)
            await fleet.start()
            line = await fleet.line(NAME)
            await self._make(fleet, line, AFTER)
            await delete(fleet, self._made["deleted"])
        return line

    async def fill(self, fleet: Fleet, line: Line) -> None:
        for kind, ledgers in self._made.items():
            fleet.record.note(f"a ledger of the kind: {kind}")
            cases = ((name, key) for name in REQUESTS for key in self._keys)
            for (name, key), ledger_id in zip(cases, ledgers, strict=True):
                await row(fleet, line, name, key, ledger_id)


def killed(fleet: Fleet) -> None:
    fleet.crash(NAME)


def journal_lost(fleet: Fleet) -> None:
    fleet.crash(NAME)
    fleet.bookies[NAME].wipe(0)


async def _serving(_fleet: Fleet) -> None:
    """As it is."""


async def _read_only(fleet: Fleet) -> None:
    await fleet.at(NAME, fleet.bookies[NAME].bookie.control.set_read_only(True))


async def _lease_over(fleet: Fleet) -> None:
    fleet.weather.is_out = True
    state = fleet.bookies[NAME].bookie.state
    await fleet.until(lambda: not state.is_leased, "the lease is over")


State = Callable[[Fleet], Awaitable[None]]
CASES: Final[dict[str, tuple[Callable[[Fleet], None], State, Sequence[bytes]]]] = {
    "serving": (killed, _serving, (KEY, WRONG)),
    "serving after its journal was lost": (journal_lost, _serving, (KEY,)),
    "read-only": (killed, _read_only, (KEY,)),
    "without a lease": (killed, _lease_over, (KEY,)),
}


@pytest.mark.parametrize("case", CASES)
def test_every_request_of_every_ledger(case: str, snapshot: SnapshotAssertion) -> None:
    crash, state, keys = CASES[case]

    async def scenes(fleet: Fleet) -> None:
        table = Table(crash, keys)
        line = await table.prepare(fleet)
        with fleet.quiet():
            await state(fleet)
        await table.fill(fleet, line)
        fleet.say_figures(NAME)

    settings: dict[str, Any] = {"storage": {"collectGraceSeconds": 0.1, "collectBrakeFrom": 1000}}
    if state is _lease_over:
        settings["lease"] = {"seconds": 8, "confirmSeconds": 2}
    assert snapshot(extension_class=Words) == told(scenes, bookies=1, settings=settings)
