"""The operator's end of bookies' control planes: health, approvals, drains.

Every call has a deadline, and names the process it means: pods get the addresses of pods that are
gone. A bookie that does not answer is None, which nobody reads as healthy; so is another's answer.
A bookie under TLS is asked with the operator's own credentials, which may change at any time.
"""

import logging
from collections.abc import Callable
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


class _Line(NamedTuple):
    """One connection, and what it was made with; other credentials make another one."""

    plane: ControlPlane
    made_with: tuple[Path, int] | None
    """Folder and generation of the credentials; None: plain."""


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
        """By address and bookie, whose certificate is expected: connections that stay open until
        `close`, at most CONNECTIONS_MAX."""

    async def health(self, to: Addressee) -> Health | None:
        """The health of a bookie; None if it does not answer or its phase is not known here.

        None too if another process answers than the one that was meant; then LOGGER says which.
        """
        try:
            plane = await self._plane(to)
            health = await plane.health(Call(to.meant, DEADLINE_S))
            return None if health.phase is Phase.UNKNOWN else health
        except UnavailableError as error:
            LOGGER.info("no health of %s: %s", to.meant.bookie, error)
            return None

    async def approve(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        plane, call = await self._plane(to), Call(to.meant, DEADLINE_S)
        taken = await plane.approve_cookie_fix(call, plan_id=plan_id, by=approved_by)
        _check_taken(taken, to)

    async def approve_collection(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        plane, call = await self._plane(to), Call(to.meant, DEADLINE_S)
        taken = await plane.approve_collection(call, plan_id=plan_id, by=approved_by)
        _check_taken(taken, to)

    async def drain(self, to: Addressee, *, cancel: bool) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        plane = await self._plane(to)
        await plane.drain(Call(to.meant, DEADLINE_S), cancel=cancel)

    async def close(self) -> None:
        for line in self._lines.values():
            await line.plane.close()
        self._lines.clear()

    async def _plane(self, to: Addressee) -> ControlPlane:
        folder = self._own_credentials() if to.has_tls else None
        made_with = None if folder is None else (folder.directory, folder.generation)
        key = to.address, to.meant.bookie
        former = self._lines.get(key)
        if former is not None and former.made_with == made_with:
            return former.plane
        dial = self._dial(None if folder is None else ClientTls(folder))
        plane = ControlPlane(to.address, bookie_id=to.meant.bookie, dial=dial)
        # Before any await: another call of the same bookie must use this one.
        self._lines.pop(key, None)
        self._lines[key] = _Line(plane, made_with)
        if former is not None:
            await former.plane.close()
        while len(self._lines) > CONNECTIONS_MAX:  # ports change with every restart
            await self._lines.pop(next(iter(self._lines))).plane.close()
        return plane

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
