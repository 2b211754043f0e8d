"""Clients that faults and the judge send: one deed each, or questions to single replicas.

What the tap (`wiretap`) hears of their questions is judged there; what they find themselves goes
into the history.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bookie.client.peers import Peers
from bookie.client.pool import BookiePool
from bookie.errors import BookieError, DigestError, FrameError
from bookie.frames.entry import EntryCodec, master_key
from bookie.frames.frame import parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.assignment import assigned
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.engine.choice import INLINE
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.reports.progress_lines import say_nothing
from bookie.testing.simulation.clients import (
    PASSWORD,
    REPAIR,
    SETTINGS,
    Shared,
    client_of,
    cluster_of,
    read_all,
)
from bookie.wire.native import ReadReply, ReadRequest

ANSWER_BYTES = 256 * 1024
EVACUATION = EvacuationSettings(grace_s=0.5, repair=REPAIR)
RIVAL_ATTEMPTS = 12
"""A rival does not give up soon, and waits between its attempts."""
_KEY = master_key(PASSWORD)


async def recover_newest(shared: Shared, store: MetadataStore, name: str) -> None:
    """Takes one of the newest ledgers from its writer, at once."""
    if not shared.begun:
        return
    ledger_id = shared.rng.choice(_abandoned(shared) or shared.begun[-2:])
    shared.history.note(f"{name} takes ledger {ledger_id}")
    async with client_of(shared, store, attempts=RIVAL_ATTEMPTS) as client:
        try:
            reader = await client.recover_ledger(ledger_id, password=PASSWORD)
            shared.history.opened(ledger_id, reader.last_entry_id)
            await read_all(shared, reader)
        except BookieError as error:
            shared.history.note(f"{name} on ledger {ledger_id}: {type(error).__name__}")


async def recover_one(
    shared: Shared, store: MetadataStore, name: str, *, ledger_id: LedgerId
) -> None:
    """Takes this very ledger."""
    async with client_of(shared, store, attempts=RIVAL_ATTEMPTS) as client:
        try:
            reader = await client.recover_ledger(ledger_id, password=PASSWORD)
            shared.history.opened(ledger_id, reader.last_entry_id)
            await read_all(shared, reader)
        except BookieError as error:
            shared.history.note(f"{name} on ledger {ledger_id}: {type(error).__name__}")


def _abandoned(shared: Shared) -> list[LedgerId]:
    """Ledgers whose writers rest, as far as they are still to be had."""
    found = [shared.writing[name] for name in sorted(shared.resting) if name in shared.writing]
    return [ledger_id for ledger_id in found if ledger_id in shared.begun]


async def delete_newest(shared: Shared, store: MetadataStore, name: str) -> None:
    """Deletes the newest ledger, whoever writes to it."""
    if not shared.begun:
        return
    ledger_id = shared.rng.choice(_abandoned(shared) or shared.begun[-1:])
    shared.history.note(f"{name} deletes ledger {ledger_id}")
    shared.deleted.add(ledger_id)
    async with client_of(shared, store) as client:
        try:
            await client.delete_ledger(ledger_id)
            shared.begun.remove(ledger_id)
        except (BookieError, ValueError) as error:
            shared.history.note(f"{name} cannot delete {ledger_id}: {type(error).__name__}")


async def ask_replicas(shared: Shared, store: MetadataStore, name: str) -> None:
    """Asks one bookie after the other what it has of a ledger that names it."""
    pool = BookiePool(store, settings=SETTINGS.pool)
    try:
        while True:
            await asyncio.sleep(shared.rng.random() * 0.6)
            if not shared.begun:
                continue
            ledger_id = shared.rng.choice(shared.begun[-4:])
            known = shared.history.ledger(ledger_id)
            if known.metadata is None or not known.sent:
                continue
            bookie_id = shared.rng.choice(_members(known.metadata))
            await _answers(pool, bookie_id, ledger_id, EntryId(len(known.sent) - 1))
    finally:
        await pool.close()


async def ask_everybody(shared: Shared, store: MetadataStore, name: str) -> None:
    """Asks every member of every ledger for all of it."""
    pool = BookiePool(store, settings=SETTINGS.pool)
    try:
        for ledger_id in list(shared.begun):
            known = shared.history.ledger(ledger_id)
            if known.metadata is not None and known.sent:
                for bookie_id in _members(known.metadata):
                    await _answers(pool, bookie_id, ledger_id, EntryId(len(known.sent) - 1))
    finally:
        await pool.close()


def _members(metadata: LedgerMetadata) -> Sequence[BookieId]:
    return sorted({one for fragment in metadata.fragments for one in fragment.ensemble})


async def _answers(
    pool: Peers, bookie_id: BookieId, ledger_id: LedgerId, last: EntryId
) -> tuple[Status, list[ReadReply]]:
    """Everything up to `last` that one bookie says; its last status."""
    replies: list[ReadReply] = []
    first = EntryId(0)
    while first <= last:
        request = ReadRequest(ledger_id, first, last, ANSWER_BYTES, _KEY)
        status, reply = await pool.read(bookie_id, request)
        if reply is None:
            return status, replies
        replies.append(reply)
        if reply.answered_through < first:
            return Status.UNKNOWN, replies
        first = EntryId(reply.answered_through + 1)
    return Status.OK, replies


@dataclass(frozen=True, slots=True)
class Share:
    """What a bookie gives of its share of a closed ledger, and how its answer ended."""

    status: Status
    missing: list[EntryId]
    wrong: list[EntryId]
    """Given, but only as something else than its digest says. A frame is given as it came: it may
    hold a copy that was rejected beside others that are good.
    """


async def copies_missing(pool: Peers, metadata: LedgerMetadata, bookie_id: BookieId) -> Share:
    """Asks one replica for all that the metadata puts on it."""
    share = assigned(metadata, bookie_id, through=metadata.last_entry_id)
    ids = [EntryId(i) for first, last in share.ranges() for i in range(first, last + 1)]
    if not ids:
        return Share(Status.OK, [], [])
    wanted = set(ids)
    ledger_id = metadata.ledger_id
    status, replies = await _answers(pool, bookie_id, ledger_id, metadata.last_entry_id)
    codec = EntryCodec(ledger_id, metadata.digest_type, PASSWORD)
    wrong: set[EntryId] = set()
    for reply in replies:
        for buffer in reply.runs:
            run = parse_run(memoryview(buffer))
            for entry_id, entry in zip(run.entry_ids(), run.entries(), strict=True):
                try:
                    codec.decode(entry, entry_id=entry_id)
                except (DigestError, FrameError):
                    wrong.add(entry_id)
                else:
                    wanted.discard(entry_id)
    return Share(status, sorted(wanted - wrong), sorted(wanted & wrong))


async def doubt_copies(shared: Shared, store: MetadataStore, name: str) -> None:
    """Tells a bookie that good copies are wrong: it looks itself, and keeps them."""
    closed = [i for i in shared.begun if (shared.history.ledger(i).end or 0) > 0]
    if not closed:
        return
    ledger_id = shared.rng.choice(closed[-3:])
    metadata = shared.history.ledger(ledger_id).metadata
    assert metadata is not None
    bookie_id = shared.rng.choice(_members(metadata))
    async with cluster_of(shared, store) as cluster:
        before = await copies_missing(cluster.peers, metadata, bookie_id)
        doubted = assigned(metadata, bookie_id, through=metadata.last_entry_id)
        rejected = await cluster.control.recheck(bookie_id, ledger_id, doubted)
        given = [i for first, last in rejected.ranges() for i in range(first, last + 1)]
        good = [i for i in given if i not in before.missing and i not in before.wrong]
        shared.history.note(f"{name} doubts ledger {ledger_id} on {bookie_id}: {len(rejected)}")
        if good and before.status is Status.OK:
            shared.history.violate(
                f"{bookie_id} let go of its good copy of {good[0]} of ledger {ledger_id} because "
                "somebody called it wrong"
            )


async def audit_now(shared: Shared, store: MetadataStore, name: str) -> None:
    """An audit in the midst of it: what a bookie with a mark does not list is not missing."""
    async with cluster_of(shared, store) as cluster:
        before = shared.marks()
        try:
            found = await audit(cluster, AuditRequest())
        except BookieError as error:
            shared.history.note(f"{name}: {type(error).__name__}")
            return
        after = shared.marks()
    shared.history.note(f"{name}: {found['audit']}")
    for finding in found["findings"]:
        for bookie_id, share in finding["bookies"].items():
            mark = (bookie_id, finding["ledger_id"])
            if "missing" in share and mark in before and mark in after:
                shared.history.violate(
                    f"an audit calls {share['missing']} of ledger {finding['ledger_id']} missing "
                    f"on {bookie_id}, which is marked and does not know"
                )


async def clear_marks(shared: Shared, store: MetadataStore, name: str) -> None:
    """Asks every bookie to let go of its marks, whether or not anything was repaired."""
    async with cluster_of(shared, store) as cluster:
        try:
            for bookie_id in await cluster.all_bookies():
                marks = (await cluster.control.list_marks(bookie_id)).marks
                done = await cluster.control.clear(bookie_id, [mark.ledger_id for mark in marks])
                cleared = sum(one.is_done for one in done.values())
                shared.history.note(f"{name} of {bookie_id}: {cleared} of {len(marks)}")
        except BookieError as error:
            shared.history.note(f"{name}: {type(error).__name__}")


# Moves
async def drain_bookie(shared: Shared, store: MetadataStore, name: str, *, bookie_id: str) -> None:
    """Moves every ledger off a bookie, as far as it may."""
    request = DrainRequest(BookieId(bookie_id), INLINE, begin=True, settings=EVACUATION)
    async with cluster_of(shared, store) as cluster:
        try:
            done = await drain(cluster, request, say=say_nothing)
        except BookieError as error:
            shared.history.note(f"{name} of {bookie_id}: {type(error).__name__}")
            return
    shared.history.note(f"{name} of {bookie_id}: exit {done['exit_code']}")
    deleted = sum(known.metadata is None for known in shared.history.ledgers.values())
    if done["ledgers"]["deleted"] > deleted:
        shared.history.violate(
            f"a drain of {bookie_id} calls {done['ledgers']['deleted']} ledgers deleted, and "
            f"{deleted} are"
        )


async def keep_bookie(shared: Shared, store: MetadataStore, name: str, *, bookie_id: str) -> None:
    """Ends its drain, however far that is."""
    async with cluster_of(shared, store) as cluster:
        answer = await cluster.control.drain(BookieId(bookie_id), cancel=True)
        shared.history.note(f"{name} keeps {bookie_id}: {answer.message}")


async def replace_bookie(
    shared: Shared, store: MetadataStore, name: str, *, bookie_id: str
) -> None:
    """Gives every ledger of a bookie that is gone another member in its place."""
    request = RereplicateRequest((BookieId(bookie_id),), INLINE, settings=EVACUATION)
    async with cluster_of(shared, store) as cluster:
        try:
            done = await rereplicate(cluster, request, say=say_nothing)
        except BookieError as error:
            shared.history.note(f"{name} of {bookie_id}: {type(error).__name__}")
            return
    shared.history.note(f"{name} of {bookie_id}: exit {done['exit_code']}")
