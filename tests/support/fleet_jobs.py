"""Jobs of a fleet's stories: ledgers that lack what a story says, the job, and what came of it.

A job works in a process of its own, so that it can be killed. Its clock is the simulation's, so
that its lines of progress are the same each time.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Final
from unittest import mock

from bookie.client.pool import BookiePool
from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec, master_key, parse_header
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.jobs.resume import Checkpoint
from bookie.repair.look.cluster import Cluster
from bookie.repair.reports.audit_progress import AuditProgress
from bookie.repair.reports.finding_history import Keeper
from bookie.repair.reports.ledger_progress import LedgerProgress
from bookie.repair.reports.page import page
from bookie.repair.reports.progress_lines import ProgressLine, Say
from bookie.testing.simulation.surroundings import EPOCH_S
from fleet_state import state_of, store_of
from fleet_story import CLIENT, PASSWORD, Fleet

REPAIR: Final = "repair"
"""The process of a job, unless a story names another."""
Begin = Callable[[Cluster, Say], Awaitable[Any]]
Some = Mapping[int, Iterable[int]]
"""Entries by the number of their bookie."""


def named(numbers: str) -> tuple[BookieId, ...]:
    """`012`: the bookies 0, 1 and 2."""
    return tuple(BookieId(f"bookie-{number}") for number in numbers)


async def made(
    fleet: Fleet,
    *fragments: tuple[int, str],
    write: int = 3,
    ack: int = 2,
    entries: int = 0,
    end: int | None = None,
    state: LedgerState = LedgerState.OPEN,
    lacks: Some | None = None,
    wrong: Some | None = None,
    flushed: bool = True,
    **more: Any,
) -> LedgerMetadata:
    """A ledger, and its entries where they belong: but not what a bookie `lacks`, and with a wrong
    digest what is `wrong` there. CLOSED at `end` unless that is None. Without a word."""
    parts = fragments or ((0, "012"),)
    with fleet.quiet():
        store = fleet.stores[fleet.process(CLIENT).name]
        metadata = LedgerMetadata(
            await store.new_ledger_id(), len(parts[0][1]), write, ack,
            tuple(Fragment(EntryId(first), named(numbers)) for first, numbers in parts),
            state=state if end is None else LedgerState.CLOSED,
            last_entry_id=NO_ENTRY if end is None else EntryId(end),
            **{"password": PASSWORD} | more,
        )  # fmt: skip
        metadata = (await store.create_ledger(metadata)).value
        if entries:
            await put(fleet, metadata, range(entries), lacks=lacks, wrong=wrong)
        if entries and flushed:
            await flush(fleet)
    return metadata


async def put(
    fleet: Fleet,
    metadata: LedgerMetadata,
    entries: Iterable[int],
    *,
    on: str | None = None,
    lacks: Some | None = None,
    wrong: Some | None = None,
    size: int = 0,
    lac: int | None = None,
    is_told: bool = False,
) -> None:
    """Entries on their write sets, or on these bookies whatever their write sets are; of `size`
    bytes, or short; each with the `lac` of a writer that waits for each ack, or this one. Without a
    word unless `is_told`."""
    left_out = {(named(str(n))[0], i) for n, ids in (lacks or {}).items() for i in ids}
    spoilt = {(named(str(n))[0], i) for n, ids in (wrong or {}).items() for i in ids}
    codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
    pool = BookiePool(fleet.stores[CLIENT])
    with nullcontext() if is_told else fleet.quiet():
        for entry_id in map(EntryId, entries):
            ensemble = metadata.fragment_of(entry_id).ensemble
            of_entry = write_set(entry_id, ensemble=ensemble, write_quorum=metadata.write_quorum)
            payload = (b"entry %d" % entry_id).ljust(size, b".")
            known = EntryId(entry_id - 1 if lac is None else lac)
            body = codec.encode(entry_id, payload, lac=known, length=10 * (entry_id + 1))
            for bookie_id in of_entry if on is None else named(on):
                if (bookie_id, entry_id) not in left_out:
                    is_wrong = (bookie_id, entry_id) in spoilt
                    await _add(pool, metadata, bookie_id, entry_id, _spoilt(body, is_wrong))
        await pool.close()


def _spoilt(body: Any, is_wrong: bool) -> bytes:
    content = bytearray(body)
    content[-1] ^= is_wrong
    return bytes(content)


async def _add(
    pool: BookiePool,
    metadata: LedgerMetadata,
    bookie_id: BookieId,
    entry_id: EntryId,
    *bodies: bytes,
) -> None:
    lac = parse_header(bodies[0]).lac
    frame = build_run(metadata.ledger_id, entry_id, list(bodies), lac=lac, flags=FLAG_RECOVERY)
    answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    key = master_key(metadata.password)
    pool.add_run(bookie_id, master_key=key, frame=frame, on_reply=answer.set_result)
    status = await answer
    assert status is Status.OK, (bookie_id, entry_id, status)


async def put_together(
    fleet: Fleet, metadata: LedgerMetadata, entries: Iterable[int], *, on: str, size: int
) -> None:
    """These entries, each of `size` bytes, in one frame on each of these bookies. Not told."""
    codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
    ids = [EntryId(entry_id) for entry_id in entries]
    bodies = [
        bytes(codec.encode(i, (b"%d" % i).ljust(size, b"."), lac=EntryId(i - 1), length=size * i))
        for i in ids
    ]
    pool = BookiePool(fleet.stores[CLIENT])
    with fleet.quiet():
        for bookie_id in named(on):
            await _add(pool, metadata, bookie_id, ids[0], *bodies)
        await pool.close()


async def flush(fleet: Fleet, *numbers: int) -> None:
    """All bookies that serve, or these, make durable what they have. Without a word."""
    with fleet.quiet():
        handles = fleet.handles(CLIENT)
        up = [n for n, bookie in enumerate(fleet.bookies.values()) if bookie.is_serving]
        await handles.flush(named("".join(map(str, numbers or up))))


async def back(fleet: Fleet, *names: str) -> None:
    """They crash and come back at once; of their boots nothing is said."""
    with fleet.quiet():
        fleet.crash(*names)
        await fleet.start(*names)
    fleet.record.note(f"{' and '.join(names)} crashed and came back")


async def restarted(fleet: Fleet, *names: str) -> None:
    """They stop cleanly and start again, so that what they have is read from their disks. Without a
    word."""
    with fleet.quiet():
        await fleet.stop(*names)
        await fleet.start(*names)


async def replaced(fleet: Fleet, name: str, place: int = 1) -> None:
    """It crashes, and comes back with an empty disk for this place; a person lets it. Of its boot
    nothing is said."""
    bookie = fleet.bookies[name]
    with fleet.quiet():
        fleet.crash(name)
        bookie.wipe(place)
        bookie.is_wanted = True
        bookie.start()
        await fleet.until(lambda: bookie.awaits_approval or bookie.is_serving, f"{name} asks")
        bookie.approve()
        await fleet.start(name)
    fleet.record.note(f"{name} came back with another disk")


# Jobs
async def job(
    fleet: Fleet, what: str, begin: Begin, *, who: str = REPAIR, says: list[str] | None = None
) -> Any:
    """In a process of its own; what it says and its result are written down. `says`: gets the lines
    too."""

    def say(line: str) -> None:
        if says is not None:
            says.append(line)
        is_last = isinstance(line, ProgressLine) and line.is_last
        fleet.record.note(f"{who} says: {line}{' (the last)' if is_last else ''}")

    async def work() -> Any:
        return await begin(fleet.handles(who), say)

    with _by_the_clock_of(fleet):
        task = fleet.spawn(who, work())
        await asyncio.wait([task])
        if task.cancelled():
            fleet.record.note(f"= {what}: cut off")
            return None
        return await fleet.seen(what, _taken(task))


async def _taken(task: "asyncio.Task[Any]") -> Any:
    return task.result()


def lines_of_page(document: Mapping[str, Any]) -> Iterator[str]:
    """The page of a result without its style, a line to each part."""
    text = re.sub(r"<style>.*?</style>", "", page(document), flags=re.DOTALL)
    for line in text.splitlines():
        yield from re.sub(
            r"(?=<(?:section|h1|h2|p|tr|div class=\"row\"|figure)\b)", "\n", line
        ).split("\n")


@contextmanager
def _by_the_clock_of(fleet: Fleet) -> Iterator[None]:
    """Some have taken their clock from `time` before the simulation replaced that."""
    with ExitStack() as stack:
        now = fleet.loop.time
        for its, clock in (
            (LedgerProgress, now), (AuditProgress, now), (Checkpoint, lambda: EPOCH_S + now()),
        ):  # fmt: skip
            options = its.__init__.__kwdefaults__
            stack.enter_context(mock.patch.dict(options, clock=clock))
        stack.enter_context(mock.patch.object(socket, "gethostname", lambda: "a-host"))
        yield


async def repaired(
    fleet: Fleet,
    numbers: str = "",
    *,
    who: str = REPAIR,
    says: list[str] | None = None,
    **request: Any,
) -> Any:
    """A repair in process, of these bookies or of all."""
    wanted = RepairRequest(**{"engine": "inline", "bookies": named(numbers)} | request)
    return await job(
        fleet, "repair", lambda cluster, say: repair(cluster, wanted, say=say), who=who, says=says
    )


async def audited(
    fleet: Fleet,
    *,
    who: str = REPAIR,
    history: Callable[[Cluster], Keeper] | None = None,
    **request: Any,
) -> Any:
    """An audit in process, of all ledgers unless some are named."""
    wanted = AuditRequest(**{"engine": "inline"} | request)

    def begin(cluster: Cluster, say: Say) -> Awaitable[Any]:
        keeper = history(cluster) if history is not None else None
        return audit(cluster, wanted, history=keeper, say=say)

    return await job(fleet, "audit", begin, who=who)


async def drained(fleet: Fleet, number: int, *, who: str = REPAIR, **request: Any) -> Any:
    """A drain in process of one bookie."""
    wanted = DrainRequest(**{"engine": "inline", "bookie_id": named(str(number))[0]} | request)
    return await job(fleet, "drain", lambda cluster, say: drain(cluster, wanted, say=say), who=who)


async def rereplicated(
    fleet: Fleet, numbers: str = "", *, who: str = REPAIR, **request: Any
) -> Any:
    """A re-replication in process: these are lost, or only what is marked."""
    wanted = RereplicateRequest(**{"engine": "inline", "bookies": named(numbers)} | request)
    return await job(
        fleet, "rereplicate", lambda cluster, say: rereplicate(cluster, wanted, say=say), who=who
    )


def kill(fleet: Fleet, who: str = REPAIR) -> None:
    """The process is gone, and its session ends some seconds later; the next job gets another."""
    fleet.record.note(f"{who} is killed")
    process = fleet._processes.pop(who)
    process.kill()
    fleet.network.forget(process)
    fleet.stores.pop(who).die()


# What happens meanwhile
def at(fleet: Fleet, text: str, act: Callable[[], object], *, nth: int = 1) -> None:
    """Does it right after the nth line that has this text is written down."""
    note, left = fleet.record.note, [nth]

    def heard(line: str) -> None:
        note(line)
        if left[0] and text in line and not fleet.record.is_quiet:
            left[0] -= 1
            if not left[0]:
                fleet.loop.call_soon(act)

    fleet.record.note = heard  # type: ignore[method-assign, assignment]


def rewrite(
    fleet: Fleet, ledger_id: LedgerId, change: Callable[[LedgerMetadata], LedgerMetadata]
) -> None:
    """Somebody else changes its metadata."""
    found = fleet.cluster.ledgers[ledger_id]
    fleet.cluster.ledgers[ledger_id] = Versioned(change(found.value), found.version + 1)
    fleet.record.note(f"somebody else writes ledger {ledger_id}")


def delete(fleet: Fleet, ledger_id: LedgerId) -> None:
    """Somebody else deletes it."""
    del fleet.cluster.ledgers[ledger_id]
    fleet.record.note(f"somebody else deletes ledger {ledger_id}")


async def mark(fleet: Fleet, ledger_id: LedgerId, missing: str, *, at_ms: int = 0) -> None:
    """BookKeeper's mark: the ledger lacks copies on these bookies. Without a word."""
    session = MemoryStore(fleet.cluster)
    await session.underreplication.mark(ledger_id, named(missing), now_ms=at_ms)


def say_rest(fleet: Fleet) -> None:
    """What is left of bookies and store, as far as it is about ledgers."""
    for bookie in fleet.bookies.values():
        for line in state_of(bookie):
            if (
                re.search(r" figure: | files: |unflushed bytes|boundaries: None, None", line)
                is None
            ):
                fleet.record.note(line)
    for line in store_of(fleet.cluster):
        if re.match(r"metadata: (ledger|value|mark)", line):
            fleet.record.note(line)
    for ledger_id, holder in sorted(fleet.cluster.mark_locks.items()):
        who = next(
            (name for name, one in fleet.stores.items() if one._inner is holder), "nobody here"
        )
        fleet.record.note(f"metadata: lock {ledger_id}: of {who}")
