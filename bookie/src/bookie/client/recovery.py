"""The shell of `protocol.recovery`: carries out its effects on bookies and the metadata store.

One attempt has one core object. An attempt that cannot decide now (members down, booting or in
limbo) closes nothing. It is repeated a bounded number of times, and then the error says which
members did not answer and why. Use: `await recover(store, peers, ledger_id)`.
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
"""Errors that another attempt cannot change."""
MISSING_NAMED_MAX: Final = 20
"""How many missing entries an error names."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """`attempts`: how many in all. The pause after the first one is `backoff_s`, then it doubles up
    to `backoff_max_s`.
    """

    attempts: int = 5
    backoff_s: float = 0.1
    backoff_max_s: float = 2.0
    read_bytes: int = 1024 * 1024
    window: int = READ_WINDOW_ENTRIES


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """A CLOSED ledger and how it was recovered; fields as in `recovery_effects.Recovered`."""

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
    """Make a chooser that takes any registered writable bookie, spread over the fleet
    by ledger id.
    """

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
    """Fence, recover and close one ledger; of a CLOSED one it only reads the metadata.

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
    """The error of an attempt, with a note about acknowledged entries that were found nowhere."""
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
    """Raise UnauthorizedError when this is not the ledger's password.

    Without this check a bookie that has never seen the ledger would take a wrong key for the right
    one. Where no password is stored, any is taken, as by Apache's client: only bookies can tell.
    """
    if metadata.password_is_stored and metadata.password != password:
        raise UnauthorizedError(metadata.ledger_id)


def accepted_loss(first_entry_id: EntryId, *, by: str, reason: str, at_ms: int) -> AcceptedLoss:
    """Make a person's acceptance that entries from `first_entry_id` on may be lost, with its record
    (S33).

    The record is JSON: `{"first_entry_id", "by", "reason", "at_ms"}`.
    """
    record = {"first_entry_id": first_entry_id, "by": by, "reason": reason, "at_ms": at_ms}
    return AcceptedLoss(first_entry_id, json.dumps(record, sort_keys=True).encode())


class _Attempt:
    """One attempt: a core, its requests as tasks, and its events in order of arrival."""

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
        # The requests of the core bound it: E reads, the write-backs of a window, one metadata
        # write.
        self._events: asyncio.Queue[Callable[[], list[Effect]]] = asyncio.Queue()
        """Answers that are not handled yet: at most one for each request under way."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        """Requests under way, in order of their begin; each is removed at its end, and all are
        cancelled with the attempt."""
        self._outcome: Recovered | Abort | None = None
        """The outcome of the core; None until then. No effect is carried out after it."""

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
        # `work` is not a coroutine: a task that is cancelled before its first step would leave it
        # unawaited.
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
            status = Status.UNREACHABLE  # not UNKNOWN, with which a bookie says that it has fenced
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
            # The write lost, or its outcome is unknown: in both cases only a linearizable re-read
            # can tell.
            current = await self._store.read_ledger(self._core.ledger_id)
            return lambda: self._core.on_metadata_conflict(current.value, current.version)
        return lambda: self._core.on_metadata_written(written.value, written.version)
