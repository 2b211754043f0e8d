"""One ZooKeeper session for asyncio code, between kazoo's threads and the event loop.

This is the only module that calls kazoo, through the client in `secure_client`. kazoo's errors that
are answers (`ANSWERS`) are passed on; the other modules of `metadata` import them from
`kazoo.exceptions`.

Requests are sent in the order in which they are begun; replies arrive on kazoo's threads, which
pass them on by `call_soon_threadsafe`. Reads are linearizable (a sync goes before them on the same
session), and are repeated after a connection loss until the operation's deadline. Writes are
repeated only if the caller says that this is harmless; otherwise their outcome is unknown, and
UnavailableError says so.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import Id

from bookie.errors import UnavailableError
from bookie.metadata.access import OPEN, X509, Access
from bookie.metadata.layout import Paths
from bookie.metadata.multi_read import MultiRead, Znode
from bookie.metadata.secure_client import SecureClient
from bookie.metadata.whoami import SUPER, Whoami
from bookie.tls.principals import Role

log = logging.getLogger(__name__)

ANSWERS: Final = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
"""Errors that are answers: they are passed on to the caller."""

LOSSES: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
"""Errors after which the outcome is unknown, and a read may be repeated."""

REQUESTS_IN_FLIGHT_MAX: Final = 256
RECONNECT_DELAY_S: Final = 0.1
RECONNECT_DELAY_MAX_S: Final = 2.0
RECONNECT_JITTER: Final = 0.4
CLOSE_WAIT_S: Final = 5.0

Begin = Callable[[Any], Any]
"""Begins one request on the given kazoo client; returns kazoo's asynchronous result."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """Settings of a session; times in seconds. `session_timeout_s`: how long others see the
    registration of a process that has died.

    `registration_wait_s`: how long `register` waits for another session's registration to expire.
    `tls`: the folder of our credentials (None: a plain connection). `login`: a file with a
    ZooKeeper user (None: no login). `open_access`: new znodes stay open to everyone, as while a
    fleet moves to TLS and part of it cannot show a certificate yet.
    """

    session_timeout_s: float = 10.0
    connect_timeout_s: float = 15.0
    operation_timeout_s: float = 15.0
    registration_wait_s: float = 30.0
    tls: Path | None = None
    login: Path | None = None
    open_access: bool = False


class ZooKeeperSession:
    """A session that reconnects without end; when the server has expired it, a new one begins."""

    def __init__(
        self, hosts: str, *, settings: ZooKeeperSettings, paths: Paths | None = None
    ) -> None:
        self.settings = settings
        self.hosts = hosts
        self.generation = 0
        """Rises with each lost session; a new session may see an older state than the lost one."""
        self.on_connected: set[Callable[[], None]] = set()
        """Called in the event loop after each (re)connection."""
        self._loop = asyncio.get_running_loop()
        """The loop that gets results and callbacks; kazoo calls on its own threads."""
        self._changed = asyncio.Event()
        """Set when the connection has been made or lost, or the session closed."""
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        """Bounds `_in_flight`."""
        self._in_flight: set[asyncio.Future[Any]] = set()
        """Requests that kazoo is carrying out; they fail at once when the session is closed."""
        self._closed = False
        """True once `close` was called: no new session begins."""
        self.closed_access = OPEN
        """The names for closed access lists, from the credentials of this process; known even if
        new lists are open."""
        self._client = SecureClient(
            hosts,
            credentials=settings.tls,
            login=settings.login,
            timeout=settings.session_timeout_s,
            # Retry without end: a bookie survives an outage of ZooKeeper. Callers have their own
            # deadlines.
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=RECONNECT_DELAY_S,
                max_delay=RECONNECT_DELAY_MAX_S,
                max_jitter=RECONNECT_JITTER,
            ),
        )
        self._client.paths = paths
        self._client.add_listener(self._state_changed)

    @classmethod
    async def open(
        cls, hosts: str, *, settings: ZooKeeperSettings, paths: Paths | None = None
    ) -> "ZooKeeperSession":
        """Open a session and connect; UnavailableError when no server answers in time.

        `paths`: of the cluster whose znodes it creates. SettingsError when files that `settings`
        name cannot be used.
        """
        session = cls(hosts, settings=settings, paths=paths)
        session._client.start_async()
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                await session._connected()
                await session._learn_access()
        except TimeoutError as error:
            trouble = session._client.trouble
            await session.close()
            raise UnavailableError(
                f"no ZooKeeper answers at {hosts} within {settings.connect_timeout_s:g} s: "
                f"{trouble or 'check the address and that it runs'}"
            ) from error
        except BaseException:
            await session.close()
            raise
        return session

    @property
    def session_id(self) -> int | None:
        """The server's id of this session; None while there is no connection."""
        client_id = self._client.client_id
        return None if client_id is None else client_id[0]

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Id and password of the session; None while there is no connection."""
        client_id: tuple[int, bytes] | None = self._client.client_id
        return client_id

    @property
    def shown_as(self) -> str:
        """How the server knows us, for messages."""
        return self._client.shown_as

    @property
    def access(self) -> Access:
        """The names in the access lists of new znodes."""
        return self._client.access

    async def close(self) -> None:
        """End the session, also on the server if it can be reached; never waits long."""
        if self._closed:
            return
        self._closed = True
        self._changed.set()
        for future in self._in_flight:
            if not future.done():
                future.set_exception(self._closed_error())
        ended = asyncio.Event()
        # In a daemon thread: kazoo joins its threads, and a silent server must block neither this
        # call nor the end of the process.
        threading.Thread(target=self._stop, args=(ended,), name="zk-close", daemon=True).start()
        try:
            await asyncio.wait_for(ended.wait(), CLOSE_WAIT_S)
        except TimeoutError:
            log.warning("ZooKeeper at %s did not confirm the end of the session", self.hosts)

    async def read(self, begin: Begin, *, synced_in: int | None = None) -> Any:
        """Do a linearizable read. Raises NoNodeError and UnavailableError.

        `synced_in`: a generation in which the caller has synced already; while it lasts, the read
        needs no sync of its own and is at least as fresh as that one.
        """
        return await self._bounded(self._read(begin, synced_in), "read")

    async def read_many(self, paths: Sequence[str]) -> list[Znode | int]:
        """Read many znodes linearizably with one request: for each path its znode, or ZooKeeper's
        error.
        """

        found: list[Znode | int] = await self.read(lambda zk: _asked(zk, MultiRead(paths)))
        return found

    async def write(self, begin: Begin, *, repeat: bool = False) -> Any:
        """Do a write. `repeat`: doing it twice is harmless, so it is tried again after a connection
        loss.

        Raises the ANSWERS, and UnavailableError when the outcome is unknown.
        """
        return await self._bounded(self._write(begin, repeat), "write")

    async def transact(self, fill: Callable[[Any], None], *, repeat: bool = False) -> None:
        """Make several changes, all or none; `fill` adds them to kazoo's transaction.

        Raises like `write`; of several errors, the one that caused the rollback.
        """

        def begin(zk: Any) -> Any:
            changes = zk.transaction()
            fill(changes)
            return changes.commit_async()

        await self._bounded(self._transact(begin, repeat), "write")

    def post(self, callback: Callable[[], None]) -> None:
        """Run a callback in the event loop; for watches, which kazoo calls on its own threads."""
        # RuntimeError means that the loop is closed, so nobody waits for it any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    async def _learn_access(self) -> None:
        """Learn the names for access lists: the login, and our certificate's if ZooKeeper knows us
        by it.
        """
        if self.settings.tls is None and self.settings.login is None:
            return
        try:
            # The first answer also shows that the login was accepted.
            names = await self._read(lambda zk: _asked(zk, Whoami()), None)
        except KazooException as error:
            raise UnavailableError(
                f"ZooKeeper at {self.hosts} does not say who we are ({type(error).__name__}), "
                "expected version 3.7 or newer: without it no access list can be made"
            ) from error
        fleet = [] if self._client.login is None else [self._client.login.name]
        clients = OPEN.clients
        principal = self._client.principal
        if principal is not None:
            own = Id(X509, principal.x509_name)
            if own in names:
                fleet.append(Id(X509, principal.peer(Role.OPERATOR, "any").x509_name))
                clients = Id(X509, principal.peer(Role.CLIENT, "any").x509_name)
            elif not fleet:
                shown = ", ".join(f"{one.scheme}:{one.id}" for one in names)
                log.warning(
                    "ZooKeeper at %s knows us as %s, expected x509:%s: what we make there is open "
                    "to whoever can connect; have certificates made with this subject, or name a "
                    "login",
                    *(self.hosts, shown, principal.x509_name),
                )
        is_super = any(one.scheme == SUPER for one in names)
        self.closed_access = Access(tuple(fleet), clients, is_super=is_super)
        if not self.settings.open_access:
            self._client.access = self.closed_access

    async def _read(self, begin: Begin, synced_in: int | None) -> Any:
        while True:
            await self._connected()
            generation = self.generation
            # A session answers in order: a read begun after the sync sees at least its state.
            sync = [] if synced_in == generation else [self._begin(lambda zk: zk.sync_async("/"))]
            answers = await asyncio.gather(*sync, self._begin(begin), return_exceptions=True)
            lost = any(isinstance(answer, LOSSES) for answer in answers)
            if lost or generation != self.generation:
                continue
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            return answers[-1]

    async def _write(self, begin: Begin, repeat: bool) -> Any:
        while True:
            await self._connected()
            try:
                return await self._begin(begin)
            except LOSSES:
                if not repeat:
                    raise

    async def _transact(self, begin: Begin, repeat: bool) -> None:
        # kazoo returns the errors of a transaction as its results.
        results = await self._write(begin, repeat)
        errors = [result for result in results if isinstance(result, KazooException)]
        causes = [e for e in errors if not isinstance(e, RolledBackError | RuntimeInconsistency)]
        for error in causes or errors:
            raise error

    async def _bounded(self, request: Coroutine[Any, Any, Any], kind: str) -> Any:
        """Run one operation under the deadline and the limit of requests in flight."""
        try:
            async with asyncio.timeout(self.settings.operation_timeout_s), self._slots:
                return await request
        except ANSWERS:
            raise
        except NoAuthError as error:
            raise UnavailableError(
                f"ZooKeeper at {self.hosts} does not allow this {kind} to {self._client.shown_as}: "
                "use the credentials of the fleet, or look with `bookie metadata acls` who may"
            ) from error
        except (TimeoutError, KazooTimeoutError, KazooException) as error:
            outcome = "; whether it happened is unknown" if kind == "write" else ""
            trouble = f" ({self._client.trouble})" if self._client.trouble else ""
            found = f"{type(error).__name__} {error}".rstrip()
            raise UnavailableError(
                f"ZooKeeper at {self.hosts} did not answer a {kind} ({found}){trouble}{outcome}: "
                "read again later"
            ) from error
        finally:
            request.close()

    def _begin(self, begin: Begin) -> asyncio.Future[Any]:
        if self._closed:
            raise self._closed_error()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._in_flight.add(future)
        future.add_done_callback(self._in_flight.discard)
        begin(self._client).rawlink(
            lambda result: self.post(lambda: _settle(future, result.value, result.exception))
        )
        return future

    async def _connected(self) -> None:
        """Wait until there is a connection; the caller sets the deadline."""
        while not self._client.connected:
            if self._closed:
                raise self._closed_error()
            self._changed.clear()
            # Check again after the clear: otherwise a change in between would be missed.
            if not self._client.connected:
                await self._changed.wait()

    def _state_changed(self, state: str) -> None:
        """kazoo's connection thread calls it, before a new session can answer anything."""
        if state == KazooState.LOST:
            self.generation += 1
        self.post(lambda: self._announce(state))

    def _announce(self, state: str) -> None:
        self._changed.set()
        if state == KazooState.CONNECTED:
            for callback in tuple(self.on_connected):
                callback()

    def _stop(self, ended: asyncio.Event) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            log.warning("ZooKeeper session at %s did not end cleanly", self.hosts, exc_info=True)
        finally:
            self.post(ended.set)

    def _closed_error(self) -> UnavailableError:
        return UnavailableError("this metadata store was closed: open a new one")


def _asked(zk: Any, request: Any) -> Any:
    """Begin a request for which kazoo has no method; returns kazoo's asynchronous result."""
    result = zk.handler.async_result()
    zk._call(request, result)
    return result


def _settle(future: asyncio.Future[Any], value: object, exception: BaseException | None) -> None:
    if future.done():
        return
    if exception is None:
        future.set_result(value)
    else:
        future.set_exception(exception)
