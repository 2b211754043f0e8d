"""Shell of `protocol.recovery`: carries its effects out against bookies and the metadata store.

One attempt = one core object. An attempt that cannot decide now (members down, booting or in limbo)
closes nothing; it is repeated a bounded number of times, and then its error names who did not
answer and why. Use: `await recover(store, peers, ledger_id)`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from bookie.client.peers import Peers
from bookie.errors import (
    BadRequestError,
    BookieError,
    MetadataConflictError,
    UnauthorizedError,
    UnavailableError,
)
from bookie.frames.entry import master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore, Versioned
from bookie.points import passing
from bookie.protocol.end_search import READ_WINDOW_ENTRIES
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.recovery import Recovery
from bookie.protocol.recovery_effects import (
    Abort,
    AcceptedLoss,
    Effect,
    FenceLac,
    Missing,
    ReadEntries,
    Recovered,
    WriteMetadata,
)
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace
from bookie.wire.native import LacRequest, ReadRequest

FINAL_ERRORS: Final = (UnauthorizedError, BadRequestError)
"""What another attempt cannot change."""
MISSING_NAMED_MAX: Final = 20
"""How many missing entries an error names."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """`attempts` in all; the pause after the first is `backoff_s`, then it doubles to the max."""

    attempts: int = 5
    backoff_s: float = 0.1
    backoff_max_s: float = 2.0
    read_bytes: int = 1024 * 1024
    window: int = READ_WINDOW_ENTRIES


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """A CLOSED ledger and what it took; fields as in `recovery_effects.Recovered`."""

    metadata: Versioned[LedgerMetadata]
    adopted: bool
    recovered: int
    attempts: int
    corrupt: tuple[tuple[BookieId, EntryId], ...]
    missing: tuple[Missing, ...]


class Replacements(Protocol):
    """Chooses a writable bookie for a local ensemble change; None when there is none."""

    async def __call__(
        self, *, ensemble: tuple[BookieId, ...], exclude: frozenset[BookieId]
    ) -> BookieId | None: ...


def registered_replacements(store: MetadataStore, ledger_id: LedgerId) -> Replacements:
    """Any registered writable bookie, spread over the fleet by ledger id."""

    async def choose(
        *, ensemble: tuple[BookieId, ...], exclude: frozenset[BookieId]
    ) -> BookieId | None:
        infos = await store.bookies()
        free = sorted(
            bookie_id
            for bookie_id, info in infos.items()
            if info.takes_runs and bookie_id not in exclude and bookie_id not in ensemble
        )
        return free[ledger_id % len(free)] if free else None

    return choose


async def recover(
    store: MetadataStore,
    peers: Peers,
    ledger_id: LedgerId,
    *,
    password: bytes = b"",
    replacements: Replacements | None = None,
    accepted_loss: AcceptedLoss | None = None,
    settings: RecoverySettings | None = None,
    sleep: Sleep = asyncio.sleep,
) -> RecoveryResult:
    """Fence, recover and close one ledger; a CLOSED one is only read.

    Raises NoSuchLedgerError, UnauthorizedError; UndecidableError (naming the members),
    NotEnoughBookiesError, MetadataConflictError or UnavailableError after the last attempt.
    """
    settings = settings or RecoverySettings()
    assert settings.attempts > 0
    replacements = replacements or registered_replacements(store, ledger_id)
    attempt = 0
    while True:
        outcome = await _attempt(
            store,
            peers,
            ledger_id,
            password=password,
            replacements=replacements,
            accepted_loss=accepted_loss,
            settings=settings,
        )
        attempt += 1
        if isinstance(outcome, Recovered):
            return _result(outcome, attempt)
        if isinstance(outcome.error, FINAL_ERRORS) or attempt >= settings.attempts:
            raise _explained(outcome)
        await sleep(min(settings.backoff_max_s, settings.backoff_s * 2 ** (attempt - 1)))


def _explained(outcome: Abort) -> BookieError:
    """The error, with what else was found out: the losses that are certain are worth knowing."""
    if outcome.missing:
        ids = ", ".join(str(missing.entry_id) for missing in outcome.missing[:MISSING_NAMED_MAX])
        outcome.error.add_note(
            f"{len(outcome.missing)} acknowledged entries were found nowhere: {ids}"
        )
    return outcome.error


def _result(done: Recovered, attempts: int) -> RecoveryResult:
    return RecoveryResult(
        metadata=Versioned(done.metadata, done.version),
        adopted=done.adopted,
        recovered=done.recovered,
        attempts=attempts,
        corrupt=done.corrupt,
        missing=done.missing,
    )


async def _attempt(
    store: MetadataStore,
    peers: Peers,
    ledger_id: LedgerId,
    *,
    password: bytes,
    replacements: Replacements,
    accepted_loss: AcceptedLoss | None,
    settings: RecoverySettings,
) -> Recovered | Abort:
    try:
        current = await store.read_ledger(ledger_id)
        check_password(current.value, password)
        core = Recovery(
            current.value,
            current.version,
            password=password,
            accepted_loss=accepted_loss,
            window=settings.window,
        )
        attempt = _Attempt(
            core,
            store=store,
            peers=peers,
            key=master_key(password),
            replacements=replacements,
            settings=settings,
        )
        return await attempt.run()
    except UnavailableError as error:
        return Abort(error)


def check_password(metadata: LedgerMetadata, password: bytes) -> None:
    """UnauthorizedError when this is not the ledger's password.

    A bookie that has never seen the ledger would learn a wrong key as the right one.
    """
    if metadata.password != password:
        raise UnauthorizedError(metadata.ledger_id)


def accepted_loss(first_entry_id: EntryId, *, by: str, reason: str, at_ms: int) -> AcceptedLoss:
    """A person's acceptance that entries from here on may be lost, with the record to keep (S33).

    The record is JSON: `{"first_entry_id", "by", "reason", "at_ms"}`.
    """
    record = {"first_entry_id": first_entry_id, "by": by, "reason": reason, "at_ms": at_ms}
    return AcceptedLoss(first_entry_id, json.dumps(record, sort_keys=True).encode())


class _Attempt:
    """One core, its open questions as tasks, its events in order of arrival."""

    def __init__(
        self,
        core: Recovery,
        *,
        store: MetadataStore,
        peers: Peers,
        key: bytes,
        replacements: Replacements,
        settings: RecoverySettings,
    ) -> None:
        self._core = core
        self._store = store
        self._peers = peers
        self._key = key
        self._replacements = replacements
        self._settings = settings
        # Bounded by what the core has open: E reads, the write-backs of a window, one write.
        self._events: asyncio.Queue[Callable[[], list[Effect]]] = asyncio.Queue()
        """What came in and is not handled yet: at most one answer for each request under way."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        """Questions and writes under way, in the order in which they were begun; each leaves at its
        end, all are cancelled with the attempt."""
        self._outcome: Recovered | Abort | None = None
        """What the core came to; None until then, and nothing is carried out after it."""

    async def run(self) -> Recovered | Abort:
        try:
            self._carry_out(self._core.start())
            while self._outcome is None:
                event = await self._events.get()
                self._carry_out(event())
            return self._outcome
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Recovered | Abort):
                self._outcome = effect
            elif isinstance(effect, AddRun):
                self._add(effect)
            elif isinstance(effect, FenceLac):
                self._start(partial(self._fence, effect))
            elif isinstance(effect, ReadEntries):
                self._start(partial(self._read, effect))
            elif isinstance(effect, Replace):
                self._start(partial(self._replace, effect))
            else:
                self._start(partial(self._write_metadata, effect))

    def _start(self, work: Callable[[], Awaitable[Callable[[], list[Effect]]]]) -> None:
        # Not a coroutine: a task that is cancelled before its first step would leave it unawaited.
        async def report() -> None:
            try:
                event = await work()
            except BookieError as error:
                failure = Abort(error)
                event = lambda: [failure]  # noqa: E731
            self._events.put_nowait(event)

        task = asyncio.get_running_loop().create_task(report())
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _add(self, effect: AddRun) -> None:
        def on_reply(status: Status) -> None:
            self._events.put_nowait(lambda: self._core.on_added(effect.op, status))

        self._peers.add_run(
            effect.bookie_id, master_key=self._key, frame=effect.frame, on_reply=on_reply
        )

    async def _fence(self, effect: FenceLac) -> Callable[[], list[Effect]]:
        request = LacRequest(self._core.ledger_id, self._key)
        status, reply = await self._peers.read_lac(effect.bookie_id, request, fence=True)
        if reply is None and status is Status.OK:
            status = Status.UNREACHABLE  # not UNKNOWN, which is a bookie's word that it has fenced
        lac = reply.lac if reply is not None else NO_ENTRY
        return lambda: self._core.on_lac(effect.op, status, lac)

    async def _read(self, effect: ReadEntries) -> Callable[[], list[Effect]]:
        request = ReadRequest(
            self._core.ledger_id,
            effect.first,
            effect.last,
            self._settings.read_bytes,
            self._key,
        )
        status, reply = await self._peers.read(effect.bookie_id, request, fence=effect.fence)
        return lambda: self._core.on_read(effect.op, status, reply)

    async def _replace(self, effect: Replace) -> Callable[[], list[Effect]]:
        chosen = await self._replacements(ensemble=effect.ensemble, exclude=effect.exclude)
        return lambda: self._core.on_replacement(effect.position, chosen)

    async def _write_metadata(self, effect: WriteMetadata) -> Callable[[], list[Effect]]:
        try:
            passing("recovery: metadata not written yet")
            written = await self._store.write_ledger(effect.metadata, version=effect.version)
            passing("recovery: metadata written, result not known")
        except (MetadataConflictError, UnavailableError):
            # Lost, or of unknown outcome: either way only a linearizable re-read can tell.
            current = await self._store.read_ledger(self._core.ledger_id)
            return lambda: self._core.on_metadata_conflict(current.value, current.version)
        return lambda: self._core.on_metadata_written(written.value, written.version)
