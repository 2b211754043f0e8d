"""Every way that an add can take, judged by one oracle: what is answered, kept and counted.

An add comes alone or among others, natively or from a stock client, whose adds are parsed one by
one or as a block. A rule that only one of these ways keeps would be a hole in all the others.
"""

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import Any, Final, NamedTuple

import pytest
from bookie.frames.buffers import FrameBuffers
from bookie.frames.build import build_run
from bookie.frames.entry import Buffer
from bookie.frames.frame import FLAG_RECOVERY, parse_run
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.server.state import ReadOnlyReason
from bookie.server.stock_adds import AddGather
from bookie.wire.stock.blocks import AddBlock, BlockScan
from bookie.wire.stock.messages import Add as StockAdd
from bookie.wire.stock.messages import Outcome, outcome_of
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3
from server_lab import KEY, UNTIL_SECONDS_MAX, ServerLab
from stock_client import NEVER, OUTCOMES_V2, StockClient, V2Client, V3Client, entry

L7: Final = LedgerId(7)
ROUNDS: Final = 8
LEDGERS: Final = 4
ID_MAX: Final = 70


class Add(NamedTuple):
    """One add, whatever carries it."""

    ledger_id: int
    entry_id: int
    key: bytes
    is_recovery: bool
    lac: int
    payload: bytes

    @property
    def body(self) -> bytes:
        return entry(self.ledger_id, self.entry_id, lac=self.lac, payload=self.payload)


@dataclass
class Kept:
    """What the oracle expects of one ledger."""

    key: bytes = b""
    """Empty: the next add teaches it."""
    is_fenced: bool = False
    is_deleted: bool = False
    entries: dict[int, list[bytes]] = field(default_factory=dict)
    """Every copy that was taken: of an id that comes twice any of them may be read."""
    lac: int = NO_ENTRY

    def take(self, add: Add, *, is_read_only: bool) -> Outcome:
        """The rules of `protocol.admission`, said once more and one add at a time."""
        if self.key and add.key != self.key:
            return Outcome.UNAUTHORIZED
        if self.is_deleted or (self.is_fenced and not add.is_recovery):
            return Outcome.FENCED
        if is_read_only and not add.is_recovery:
            return Outcome.READ_ONLY
        self.key = add.key
        self.entries.setdefault(add.entry_id, []).append(add.body)
        self.lac = max(self.lac, add.lac)
        return Outcome.OK


Answers = Counter[tuple[int, int, Outcome]]
"""By ledger, entry and outcome."""
Way = Callable[[ServerLab, Sequence[Add]], Awaitable[Answers]]


def _frame(adds: Sequence[Add]) -> bytes:
    first = adds[0]
    lac = EntryId(max(add.lac for add in adds))
    flags = FLAG_RECOVERY if first.is_recovery else 0
    bodies: list[Buffer] = [add.body for add in adds]
    return build_run(
        LedgerId(first.ledger_id), EntryId(first.entry_id), bodies, lac=lac, flags=flags
    )


def _runs(adds: Sequence[Add]) -> Iterator[list[Add]]:
    """Adds that lie one behind the other and have consecutive ids, as our writer sends them."""
    run = [adds[0]]
    for before, add in pairwise(adds):
        follows = add[0] == before[0] and add[1] == before[1] + 1 and add[2:4] == before[2:4]
        if not follows:
            yield run
            run = []
        run.append(add)
    yield run


async def _send(server: ServerLab, adds: Sequence[Add]) -> Answers:
    outcome = outcome_of(await server.send(_frame(adds), key=adds[0].key))
    return Counter((add.ledger_id, add.entry_id, outcome) for add in adds)


async def native_single(server: ServerLab, adds: Sequence[Add]) -> Answers:
    return sum([await _send(server, [add]) for add in adds], Answers())


async def native_batch(server: ServerLab, adds: Sequence[Add]) -> Answers:
    sent = await asyncio.gather(*[_send(server, run) for run in _runs(adds)])
    return sum(sent, Answers())


def stock(kind: type[StockClient], *, together: bool) -> Way:
    """One connection of a stock client; `together`: all adds in one write."""

    async def send(server: ServerLab, adds: Sequence[Add]) -> Answers:
        assert server.bookie is not None
        client: Any = await kind.connect(server.bookie.ports["stock"])
        frames = [
            client.add(a.ledger_id, a.entry_id, lac=a.lac, key=a.key, recovery=a.is_recovery,
                       payload=a.payload)
            for a in adds
        ]  # fmt: skip
        parts = [frames] if together else [[one] for one in frames]
        answers = [answer for part in parts for answer in await client.ask(*part)]
        await client.close()
        return Answers((a.ledger_id, a.entry_id, a.outcome) for a in answers)

    return send


WAYS: dict[str, Way] = {
    "native single": native_single,
    "native batch": native_batch,
    "v2 single": stock(V2Client, together=False),
    "v2 block": stock(V2Client, together=True),
    "v3 single": stock(V3Client, together=False),
    "v3 block": stock(V3Client, together=True),
}


def wrong_key(rng: random.Random) -> bytes:
    """One that is nothing like the right one, or that has one byte of it wrong."""
    at = rng.randrange(len(KEY))
    return rng.choice((NEVER, KEY[:at] + bytes([KEY[at] ^ 1]) + KEY[at + 1 :]))


def some_adds(rng: random.Random, ledgers: Sequence[int]) -> list[Add]:
    """Of several ledgers: rising ids, falling ones, ones that come twice, now and then a key that
    is wrong, the right of a recovery, or another size; LACs rise and fall."""
    found: list[Add] = []
    right, size, odds = rng.random() < 0.3, rng.choice((5, 30)), rng.choice((0.0, 0.02, 0.1))
    reach = dict.fromkeys(ledgers, 0)
    for _ in range(rng.choice((3, 30, 120))):
        ledger = rng.choice(ledgers)
        if rng.random() < odds:
            right, size = rng.random() < 0.5, rng.choice((5, 30))
        step = rng.choice((1, 1, 1, 1, 2, 3)) if rng.random() < 0.95 else -rng.randrange(9)
        reach[ledger] = max(0, min(ID_MAX, reach[ledger] + step))
        key = wrong_key(rng) if rng.random() < odds / 2 else KEY
        # Of a recovery it never advances, and what is here already is not stored again for it.
        lac = NO_ENTRY if right else rng.randrange(-1, reach[ledger] + 1)
        found.append(Add(ledger, reach[ledger], key, right, lac, rng.randbytes(size)))
    return found


class Round:
    """Ledgers in several states, and what the oracle expects of them."""

    def __init__(self, server: ServerLab, kept: dict[int, Kept]) -> None:
        self.server = server
        self.kept = kept

    @classmethod
    async def prepare(cls, server: ServerLab, rng: random.Random) -> "Round":
        kept: dict[int, Kept] = {}
        for _ in range(rng.choice((1, LEDGERS))):
            ledger = await server.ledger()
            kept[ledger] = Kept()
            state = rng.choice(("new", "new", "fenced", "deleted"))
            if state != "new":
                await server.fence(ledger)
                kept[ledger] = Kept(KEY, is_fenced=True, is_deleted=state == "deleted")
            if state == "deleted":
                assert server.bookie is not None
                maintenance = server.bookie.control.booted.storage.maintenance
                await server.store.delete_ledger(LedgerId(ledger))
                await asyncio.to_thread(maintenance.delete_ledgers, [ledger])
        return cls(server, kept)

    async def check(self) -> None:
        """What is read is what was taken, byte by byte."""
        for ledger, kept in self.kept.items():
            if kept.is_deleted:
                continue
            read = await self._read(ledger)
            assert read.keys() == kept.entries.keys()
            assert all(body in kept.entries[entry_id] for entry_id, body in read.items())
            _status, told = await self.server.lac(ledger)
            if kept.entries:
                assert told is not None
                assert (told.lac, told.last_entry_id) == (kept.lac, max(kept.entries))

    async def _read(self, ledger: int) -> dict[int, bytes]:
        _status, reply = await self.server.read(ledger, 0, ID_MAX)
        runs = [parse_run(memoryview(run)) for run in reply.runs] if reply else []
        return {
            entry_id: bytes(body)
            for run in runs
            for entry_id, body in zip(run.entry_ids(), run.entries(), strict=True)
        }


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", WAYS)
async def test_whatever_way_adds_take_one_oracle_says_what_becomes_of_them(
    server: ServerLab, way: str, seed: int
) -> None:
    rng, merged = random.Random(seed), OUTCOMES_V2 if way.startswith("v2") else {}
    for number in range(ROUNDS):
        assert server.bookie is not None
        is_read_only = number % 4 == 3
        server.bookie.state.switch_read_only(ReadOnlyReason.PERSON, is_read_only)
        prepared = await Round.prepare(server, rng)
        adds, before = some_adds(rng, list(prepared.kept)), server.traffic.entries_added
        expected, taken = Answers(), 0
        for add in adds:
            outcome = prepared.kept[add.ledger_id].take(add, is_read_only=is_read_only)
            expected[add.ledger_id, add.entry_id, merged.get(outcome.v2, outcome)] += 1
            taken += outcome is Outcome.OK
        async with asyncio.timeout(UNTIL_SECONDS_MAX):  # an answer that never comes
            assert await WAYS[way](server, adds) == expected
        assert server.traffic.entries_added - before == taken
        await prepared.check()


def block_of(kind: Any, make: Any, adds: Sequence[Add]) -> AddBlock:
    """Adds that are parsed together."""
    client = kind(None, None)
    frames = [
        client.add(add.ledger_id, add.entry_id, lac=add.lac, key=add.key, payload=add.payload)
        for add in adds
    ]
    data = bytearray(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    block = BlockScan().find(make(), memoryview(data))
    assert block is not None
    return block


def gathered(kind: Any, make: Any, adds: Sequence[Add]) -> AddGather:
    """What becomes of adds that are parsed as a block."""
    gather = AddGather(make(), FrameBuffers())
    gather.add_block(block_of(kind, make, adds))
    return gather


STOCK_WIRES = pytest.mark.parametrize(
    ("kind", "make"), [(V2Client, V2), (V3Client, V3)], ids=["v2", "v3"]
)


@pytest.mark.parametrize("at", range(len(KEY)))
@STOCK_WIRES
def test_no_adds_whose_keys_differ_anywhere_are_one_run(kind: Any, make: Any, at: int) -> None:
    changed = KEY[:at] + b"?" + KEY[at + 1 :]
    keys = [changed if n == 30 else KEY for n in range(60)]
    gather = gathered(kind, make, [Add(7, n, key, False, -1, b"x") for n, key in enumerate(keys)])
    runs = [(run.frame.first_entry_id, run.frame.count, run.master_key) for run in gather.runs()]
    assert runs == [(0, 30, KEY), (30, 1, changed), (31, 29, KEY)]


@pytest.mark.parametrize("at", [0, 1, 30, 58, 59])
@STOCK_WIRES
def test_a_run_says_the_highest_lac_of_its_adds_wherever_that_is(
    kind: Any, make: Any, at: int
) -> None:
    lacs = [40 if n == at else n % 30 - 1 for n in range(60)]
    gather = gathered(
        kind, make, [Add(7, 60 + n, KEY, False, lac, b"x") for n, lac in enumerate(lacs)]
    )
    assert [run.frame.lac for run in gather.runs()] == [40]


@pytest.mark.parametrize("lacs", [[-2], [-(2**63)], [-5] * 60, [-2 + n % 2 for n in range(60)]])
@STOCK_WIRES
def test_a_lac_that_is_none_makes_a_run_that_can_be_read_back(
    kind: Any, make: Any, lacs: Sequence[int]
) -> None:
    """A client may write any number there; a run has -1 at least."""
    adds = [Add(7, n, KEY, False, lac, b"x") for n, lac in enumerate(lacs)]
    gather = AddGather(make(), FrameBuffers())
    if len(adds) > 1:
        gather.add_block(block_of(kind, make, adds))
    else:
        gather.add(StockAdd(L7, EntryId(0), KEY, memoryview(adds[0].body), False, False, 0))
    assert [parse_run(run.frame.buffer).lac for run in gather.runs()] == [NO_ENTRY]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
@STOCK_WIRES
def test_no_add_overtakes_another_of_its_ledger(kind: Any, make: Any, order: Sequence[int]) -> None:
    """Neither one that came alone those of a block, nor the other way round."""
    gather, arrived = AddGather(make(), FrameBuffers()), list[int]()
    for number in order:
        first = 1000 + 1000 * number
        ids = range(first, first + (30 if number % 2 else 1))
        adds = [Add(7, i, KEY, False, -1, b"x") for i in ids]
        arrived += ids
        if len(adds) > 1:
            gather.add_block(block_of(kind, make, adds))
        else:
            gather.add(StockAdd(L7, EntryId(first), KEY, memoryview(adds[0].body), False, False, 0))
    assert [i for run in gather.runs() for i in run.frame.entry_ids()] == arrived
