"""The operator's end of bookies' control planes: health, approvals, drains.

Every call has a deadline, and names the process it means: pods get the addresses of pods that are
gone. A bookie that does not answer is None, which nobody reads as healthy; so is another's answer.
A bookie under TLS is asked with the operator's own credentials, which may change at any time.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bookie.errors import SettingsError, UnavailableError
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.wire.admin.client import Call, ControlPlane, Dial, dial_with
from bookie.wire.admin.health import Health, Phase
from bookie.wire.admin.request_answer import RequestAnswer
from bookie.wire.identity import Identity

LOGGER: Final = logging.getLogger(__name__)
DEADLINE_S: Final = 3.0
CONNECTIONS_MAX: Final = 200


class Addressee(NamedTuple):
    """The bookie that a call is for."""

    address: str
    """`host:port`."""
    meant: Identity
    """The process that must answer at this address."""
    has_tls: bool = False
    """Whether the control plane uses TLS, as the process was started."""


class Control(Protocol):
    """Calls of control planes that observing and acting need."""

    async def health(self, to: Addressee) -> Health | None: ...

    async def approve(self, to: Addressee, *, plan_id: str, approved_by: str) -> None: ...

    async def approve_collection(
        self, to: Addressee, *, plan_id: str, approved_by: str
    ) -> None: ...

    async def drain(self, to: Addressee, *, cancel: bool) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Line:
    """One connection, and what it was made with; other credentials make another one."""

    plane: ControlPlane
    made_with: tuple[Path, int] | None
    """Folder and generation of the credentials; None: plain."""
    calls: int = 0
    """Calls under way; a connection with any is not closed to make room."""


class GrpcControl:
    """Control planes over gRPC, one connection per bookie and address."""

    def __init__(
        self,
        credentials: Callable[[], Path | None] = lambda: None,
        *,
        dial: Callable[[ClientTls | None], Dial] = dial_with,
    ) -> None:
        """`credentials`: returns the folder with the operator's credentials; None: it has none."""
        self._credentials = credentials
        self._dial = dial
        self._folder: CredentialsFolder | None = None
        """The folder that was used last; None until a bookie with TLS was asked."""
        self._lines: dict[tuple[str, str], _Line] = {}
        """By address and bookie, whose certificate is expected: open connections, the one that was
        used last at the end. CONNECTIONS_MAX of them stay open without a call."""

    async def health(self, to: Addressee) -> Health | None:
        """The health of a bookie; None if it does not answer or its phase is not known here.

        None too if another process answers than the one that was meant; then LOGGER says which.
        """
        try:
            async with self._plane(to) as plane:
                health = await plane.health(Call(to.meant, DEADLINE_S))
            return None if health.phase is Phase.UNKNOWN else health
        except UnavailableError as error:
            LOGGER.info("no health of %s: %s", to.meant.bookie, error)
            return None

    async def approve(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        call = Call(to.meant, DEADLINE_S)
        async with self._plane(to) as plane:
            taken = await plane.approve_cookie_fix(call, plan_id=plan_id, by=approved_by)
        _check_taken(taken, to)

    async def approve_collection(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        call = Call(to.meant, DEADLINE_S)
        async with self._plane(to) as plane:
            taken = await plane.approve_collection(call, plan_id=plan_id, by=approved_by)
        _check_taken(taken, to)

    async def drain(self, to: Addressee, *, cancel: bool) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        async with self._plane(to) as plane:
            await plane.drain(Call(to.meant, DEADLINE_S), cancel=cancel)

    async def close(self) -> None:
        for line in self._lines.values():
            await line.plane.close()
        self._lines.clear()

    @asynccontextmanager
    async def _plane(self, to: Addressee) -> AsyncIterator[ControlPlane]:
        line, former = self._line(to)
        line.calls += 1
        try:
            for one in [*former, *self._beyond_the_limit()]:
                await one.plane.close()
            yield line.plane
        finally:
            line.calls -= 1

    def _line(self, to: Addressee) -> tuple[_Line, list[_Line]]:
        """The connection for a call, and one that was made with former credentials, to close."""
        folder = self._own_credentials() if to.has_tls else None
        made_with = None if folder is None else (folder.directory, folder.generation)
        key = to.address, to.meant.bookie
        known = self._lines.pop(key, None)
        if known is not None and known.made_with == made_with:
            self._lines[key] = known
            return known, []
        dial = self._dial(None if folder is None else ClientTls(folder))
        plane = ControlPlane(to.address, bookie_id=to.meant.bookie, dial=dial)
        line = self._lines[key] = _Line(plane, made_with)
        return line, [] if known is None else [known]

    def _beyond_the_limit(self) -> list[_Line]:
        """Connections to close, unused for longest: ports change with every restart."""
        idle = [key for key, line in self._lines.items() if not line.calls]
        beyond = idle[: max(0, len(self._lines) - CONNECTIONS_MAX)]
        return [self._lines.pop(key) for key in beyond]

    def _own_credentials(self) -> CredentialsFolder:
        """UnavailableError while there are none that fit together."""
        directory = self._credentials()
        if directory is None:
            raise UnavailableError("it is under TLS, and the operator has no credentials yet")
        if self._folder is None or self._folder.directory != directory:
            try:
                self._folder = CredentialsFolder(directory)
            except SettingsError as error:
                raise UnavailableError(f"the operator's credentials: {error}") from error
        self._folder.look()
        return self._folder


def _check_taken(answer: RequestAnswer, to: Addressee) -> None:
    if not answer.accepted:
        raise UnavailableError(f"the bookie at {to.address} refused: {answer.message}")
