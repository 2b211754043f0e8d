"""One ZooKeeper session for asyncio code: the place where kazoo's threads meet the event loop.

The only module that calls kazoo, whose client is `secure_client`. Its errors that are answers
(`ANSWERS`) reach the other modules of `metadata` as they are, which import them from
`kazoo.exceptions`.

Requests go out in the order they are begun; replies come in on kazoo's threads and are handed over
by `call_soon_threadsafe`. Reads are linearizable (a sync goes before them on the same session) and
are repeated after a connection loss until the operation's deadline. Writes are not, unless the
caller says that repeating is harmless: their outcome is unknown, and UnavailableError says so.
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
"""Errors that are answers: they come to the caller as they are."""

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
"""Begins one request on the kazoo client it is given; returns kazoo's asynchronous result."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """Times in seconds. `session_timeout_s`: how long others see a registration whose process died.

    `registration_wait_s`: how long `register` waits for another session's left-over to expire.
    `tls`: the folder of credentials to show (None: a plain connection). `login`: a file with a user
    of ZooKeeper's own (None: nobody's). `open_access`: whatever is made stays open to everyone, as
    while a fleet moves to TLS and some of it cannot show a certificate yet.
    """

    session_timeout_s: float = 10.0
    connect_timeout_s: float = 15.0
    operation_timeout_s: float = 15.0
    registration_wait_s: float = 30.0
    tls: Path | None = None
    login: Path | None = None
    open_access: bool = False


class ZooKeeperSession:
    """A session that reconnects for ever; when the server has expired it, a new one begins."""

    def __init__(
        self, hosts: str, *, settings: ZooKeeperSettings, paths: Paths | None = None
    ) -> None:
        self.settings = settings
        self.hosts = hosts
        self.generation = 0
        """Rises with each lost session; a new session may see less than the lost one did."""
        self.on_connected: set[Callable[[], None]] = set()
        """Called in the event loop after each (re)connection."""
        self._loop = asyncio.get_running_loop()
        """Where results and callbacks go; kazoo calls on threads of its own."""
        self._changed = asyncio.Event()
        """The connection came or went, or the session was closed."""
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        """Bounds `_in_flight`."""
        self._in_flight: set[asyncio.Future[Any]] = set()
        """Requests that kazoo has; failed at once when the session is closed."""
        self._closed = False
        """`close` was called: no new session is made."""
        self.closed_access = OPEN
        """Who is who by the credentials of this process, whether new lists are open or not."""
        self._client = SecureClient(
            hosts,
            credentials=settings.tls,
            login=settings.login,
            timeout=settings.session_timeout_s,
            # Without end: a bookie outlives an outage of ZooKeeper. Callers have their deadlines.
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
        """A connected session; UnavailableError when nobody answers in time.

        `paths`: of the cluster whose znodes are made; SettingsError when files that `settings` name
        cannot be used.
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
        """The server's id of this session, None while there is no connection."""
        client_id = self._client.client_id
        return None if client_id is None else client_id[0]

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Id and password of the session, None while there is no connection."""
        client_id: tuple[int, bytes] | None = self._client.client_id
        return client_id

    @property
    def shown_as(self) -> str:
        """Who we are to the server, for messages."""
        return self._client.shown_as

    @property
    def access(self) -> Access:
        """Who is who in the access lists of what is made."""
        return self._client.access

    async def close(self) -> None:
        """Ends the session on the server if it can be reached; never waits long."""
        if self._closed:
            return
        self._closed = True
        self._changed.set()
        for future in self._in_flight:
            if not future.done():
                future.set_exception(self._closed_error())
        ended = asyncio.Event()
        # A daemon thread of our own: kazoo joins its threads, and a silent server must hold up
        # neither this call nor the end of the process.
        threading.Thread(target=self._stop, args=(ended,), name="zk-close", daemon=True).start()
        try:
            await asyncio.wait_for(ended.wait(), CLOSE_WAIT_S)
        except TimeoutError:
            log.warning("ZooKeeper at %s did not confirm the end of the session", self.hosts)

    async def read(self, begin: Begin, *, synced_in: int | None = None) -> Any:
        """A linearizable read. Raises NoNodeError and UnavailableError.

        `synced_in`: a generation in which this caller has synced already; while it lasts, the
        read goes without a sync of its own and is no older than that one.
        """
        return await self._bounded(self._read(begin, synced_in), "read")

    async def read_many(self, paths: Sequence[str]) -> list[Znode | int]:
        """Linearizable reads with one request: for each path its znode, or ZooKeeper's error."""

        found: list[Znode | int] = await self.read(lambda zk: _asked(zk, MultiRead(paths)))
        return found

    async def write(self, begin: Begin, *, repeat: bool = False) -> Any:
        """A write. `repeat`: doing it twice is harmless, so it is tried again after a loss.

        Raises the ANSWERS, and UnavailableError: the outcome is then unknown.
        """
        return await self._bounded(self._write(begin, repeat), "write")

    async def transact(self, fill: Callable[[Any], None], *, repeat: bool = False) -> None:
        """Several changes, all or none; `fill` adds them to kazoo's transaction.

        Raises like `write`; of several errors, the one that made the others roll back.
        """

        def begin(zk: Any) -> Any:
            changes = zk.transaction()
            fill(changes)
            return changes.commit_async()

        results = await self.write(begin, repeat=repeat)
        errors = [result for result in results if isinstance(result, KazooException)]
        causes = [e for e in errors if not isinstance(e, RolledBackError | RuntimeInconsistency)]
        for error in causes or errors:
            raise error

    def post(self, callback: Callable[[], None]) -> None:
        """Calls back in the event loop; for watches, which kazoo calls on its own threads."""
        # RuntimeError: the loop is closed, so nobody waits for news any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    async def _learn_access(self) -> None:
        """Whom access lists name: the login, and our certificate where ZooKeeper knows us by it."""
        if self.settings.tls is None and self.settings.login is None:
            return
        try:
            # The first answer also shows that the login was taken.
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
            # One session answers in order: what is begun after the sync sees at least its state.
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

    async def _bounded(self, request: Coroutine[Any, Any, Any], kind: str) -> Any:
        """Runs one operation under the deadline and the limit on requests in flight."""
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
            raise UnavailableError(
                f"ZooKeeper at {self.hosts} did not answer a {kind} "
                f"({type(error).__name__} {error}){trouble}{outcome}: read again later"
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
        """Returns once there is a connection; the caller sets the deadline."""
        while not self._client.connected:
            if self._closed:
                raise self._closed_error()
            self._changed.clear()
            # Looked at again after the clear: a change in between would otherwise go unseen.
            if not self._client.connected:
                await self._changed.wait()

    def _state_changed(self, state: str) -> None:
        """Called on kazoo's connection thread, before a new session can answer anything."""
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
    """kazoo's asynchronous result of a request that kazoo has no method for."""
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
