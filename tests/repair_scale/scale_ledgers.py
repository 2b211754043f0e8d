"""The damaged ledgers: written past the client, so that each lacks exactly what its kind says.

Entries go straight to chosen bookies in one run each; the metadata follows. The unclean bookies
forget what they took when they are killed, the others are told to flush. All kinds are 3/3/2.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec, master_key
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.look.cluster import Cluster

ENTRIES: Final = 8
PAYLOAD_BYTES: Final = 100
PASSWORD: Final = b"scale"
AT_ONCE: Final = 64
BOOKIES: Final = tuple(BookieId(f"bookie-{number}") for number in range(5))
UNCLEAN: Final = BOOKIES[:2]
"""Killed with everything unflushed, and booted: limbo and unchecked marks."""
AWAY: Final = BOOKIES[3]
"""Stopped for the first repair: what only it could decide stays undecided."""
SOUND: Final = BOOKIES[2:]


class Kind(Enum):
    """What is wrong with a ledger."""

    FORGOTTEN = "closed; an unclean bookie forgot its copy"
    LIMBO = "open; an unclean bookie forgot its copy, and holds the ledger in limbo"
    ONE_COPY = "closed; both unclean bookies forgot it, one copy is left"
    HOLE = "closed; a sound bookie never got three entries, and has no mark"
    CORRUPT = "closed; an unclean bookie forgot, and one of the copies left has a wrong digest"
    REPLACED = "S37: a recoverer put an unclean bookie into the ledger after it had forgotten"
    RECOVERING = "in recovery; the recoverer wrote to an unclean bookie and died"


SHARES: Final = {
    Kind.FORGOTTEN: 35, Kind.LIMBO: 25, Kind.ONE_COPY: 10, Kind.HOLE: 15, Kind.CORRUPT: 5,
    Kind.REPLACED: 5, Kind.RECOVERING: 5,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """One ledger to make. `hurt`: who will lack entries, or holds the wrong one of them."""

    kind: Kind
    ensemble: tuple[BookieId, ...]
    hurt: BookieId
    entry: EntryId


@dataclass(frozen=True, slots=True)
class Made:
    """A ledger as it was made; `metadata` before anybody repaired it."""

    plan: Plan
    metadata: LedgerMetadata

    @property
    def ledger_id(self) -> LedgerId:
        return self.metadata.ledger_id

    @property
    def corrupt_copy(self) -> tuple[LedgerId, BookieId, EntryId] | None:
        if self.plan.kind is not Kind.CORRUPT:
            return None
        return self.ledger_id, self.plan.hurt, self.plan.entry


def plans(count: int, rng: random.Random) -> Iterator[Plan]:
    """Every kind at least once from len(Kind) ledgers on, the rest by SHARES."""
    kinds = [*Kind, *rng.choices(list(SHARES), weights=list(SHARES.values()), k=count)]
    for kind in kinds[:count]:
        yield _plan(kind, rng)


def _plan(kind: Kind, rng: random.Random) -> Plan:
    sound = rng.sample(SOUND, 3)
    unclean = rng.choice(UNCLEAN)
    entry = EntryId(rng.randrange(ENTRIES - 2))
    if kind is Kind.HOLE:
        return Plan(kind, tuple(sound), sound[0], entry)
    if kind is Kind.ONE_COPY:
        return Plan(kind, (*UNCLEAN, sound[0]), unclean, entry)
    hurt = sound[0] if kind is Kind.CORRUPT else unclean
    ensemble = [unclean, *sound[:2]]
    rng.shuffle(ensemble)
    return Plan(kind, tuple(ensemble), hurt, entry)


async def make(cluster: Cluster, wanted: Sequence[Plan]) -> list[Made]:
    """Write all of them; an add that is refused is an error of this program."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(plan: Plan) -> Made:
        async with slots:
            return await _make_one(cluster, plan)

    return await asyncio.gather(*map(one, wanted))


async def _make_one(cluster: Cluster, plan: Plan) -> Made:
    metadata = _metadata(await cluster.store.new_ledger_id(), plan)
    created = await cluster.store.create_ledger(_before_the_crash(metadata, plan))
    # REPLACED: the metadata does not name the unclean bookie yet, which takes a write-back.
    for bookie_id in plan.ensemble:
        entries = _entries(metadata, plan, bookie_id)
        for part in entries:
            await _send(cluster, metadata, bookie_id, part)
    return Made(plan, created.value)


def _metadata(ledger_id: LedgerId, plan: Plan) -> LedgerMetadata:
    state, last = LedgerState.CLOSED, EntryId(ENTRIES - 1)
    if plan.kind is Kind.LIMBO:
        state, last = LedgerState.OPEN, NO_ENTRY
    if plan.kind in (Kind.REPLACED, Kind.RECOVERING):
        state, last = LedgerState.IN_RECOVERY, NO_ENTRY
    return LedgerMetadata(
        ledger_id, 3, 3, 2,
        fragments=(Fragment(EntryId(0), plan.ensemble),),
        password=PASSWORD,
        state=state,
        last_entry_id=last,
    )  # fmt: skip


def _before_the_crash(metadata: LedgerMetadata, plan: Plan) -> LedgerMetadata:
    """REPLACED: with the bookie that the recoverer is about to replace."""
    if plan.kind is not Kind.REPLACED:
        return metadata
    (other,) = set(SOUND) - set(plan.ensemble)
    ensemble = tuple(other if b == plan.hurt else b for b in plan.ensemble)
    return metadata.with_fragments((Fragment(EntryId(0), ensemble),))


def closing(made: Made) -> LedgerMetadata:
    """REPLACED: what the recoverer writes in the end, when the bookie has already forgotten."""
    named = made.metadata.with_fragments((Fragment(EntryId(0), made.plan.ensemble),))
    return replace(named, state=LedgerState.CLOSED, last_entry_id=EntryId(ENTRIES - 1))


def payload(ledger_id: LedgerId, entry_id: int) -> bytes:
    """Any bytes that say whose they are."""
    return (b"ledger %d entry %d " % (ledger_id, entry_id)).ljust(PAYLOAD_BYTES, b".")


def _entries(metadata: LedgerMetadata, plan: Plan, bookie_id: BookieId) -> list[list[bytes]]:
    """What this bookie gets, as lists of consecutive entries."""
    codec = EntryCodec(metadata.ledger_id, metadata.digest_type, PASSWORD)
    bodies = [
        codec.encode(
            EntryId(i),
            payload(metadata.ledger_id, i),
            lac=EntryId(i - 1),
            length=(i + 1) * PAYLOAD_BYTES,
        )
        for i in range(ENTRIES)
    ]
    if bookie_id != plan.hurt:
        return [bodies]
    if plan.kind is Kind.CORRUPT:
        bodies[plan.entry] = bodies[plan.entry][:-1] + b"!"
    if plan.kind is Kind.HOLE:
        return [part for part in (bodies[: plan.entry], bodies[plan.entry + 3 :]) if part]
    return [bodies]


async def _send(
    cluster: Cluster, metadata: LedgerMetadata, bookie_id: BookieId, bodies: Sequence[bytes]
) -> None:
    first = EntryId(int.from_bytes(bodies[0][8:16], "big"))
    frame = build_run(
        metadata.ledger_id,
        first,
        bodies,
        lac=EntryId(first + len(bodies) - 2),
        flags=FLAG_RECOVERY if metadata.state is LedgerState.IN_RECOVERY else 0,
    )
    answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    key = master_key(PASSWORD)
    cluster.peers.add_run(bookie_id, master_key=key, frame=frame, on_reply=answer.set_result)
    status = await answer
    assert status is Status.OK, f"{bookie_id} answered {status.name} to ledger {metadata.ledger_id}"
