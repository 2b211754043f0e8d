"""The operator's end of bookies' control planes: health, approvals of cookie fixes, drains.

Every call has a deadline, and names the process it means: pods get the addresses of pods that are
gone. A bookie that does not answer is None, which nobody reads as healthy; so is another's answer.
"""

import logging
from typing import Final, Protocol

from bookie.errors import UnavailableError
from bookie.wire.admin.client import Call, ControlPlane, Dial, dial
from bookie.wire.admin.health import Health, Phase
from bookie.wire.identity import Identity

LOGGER: Final = logging.getLogger(__name__)
DEADLINE_S: Final = 3.0
CONNECTIONS_MAX: Final = 200


class Control(Protocol):
    """What observing and acting need; `address` is host:port, `meant` who must answer there."""

    async def health(self, address: str, meant: Identity) -> Health | None: ...

    async def approve(
        self, address: str, meant: Identity, *, plan_id: str, approved_by: str
    ) -> None: ...

    async def drain(self, address: str, meant: Identity, *, cancel: bool) -> None: ...

    async def close(self) -> None: ...


class GrpcControl:
    """Control planes over gRPC, one connection per address."""

    def __init__(self, *, dial: Dial = dial) -> None:
        self._dial = dial
        self._planes: dict[str, ControlPlane] = {}
        """One connection to each address that was asked, until `close`."""

    async def health(self, address: str, meant: Identity) -> Health | None:
        """None of another process than the one meant, too: LOGGER tells who answered.

        And of one in a phase that this version does not know.
        """
        plane = await self._plane(address)
        try:
            health = await plane.health(Call(meant, DEADLINE_S))
            return None if health.phase is Phase.UNKNOWN else health
        except UnavailableError as error:
            LOGGER.info("no health of %s: %s", meant.bookie, error)
            return None

    async def approve(
        self, address: str, meant: Identity, *, plan_id: str, approved_by: str
    ) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        plane, call = await self._plane(address), Call(meant, DEADLINE_S)
        taken = await plane.approve_cookie_fix(call, plan_id=plan_id, by=approved_by)
        if not taken.accepted:
            raise UnavailableError(f"the bookie at {address} refused: {taken.message}")

    async def drain(self, address: str, meant: Identity, *, cancel: bool) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        plane = await self._plane(address)
        await plane.drain(Call(meant, DEADLINE_S), cancel=cancel)

    async def close(self) -> None:
        for plane in self._planes.values():
            await plane.close()
        self._planes.clear()

    async def _plane(self, address: str) -> ControlPlane:
        if address not in self._planes:
            while len(self._planes) >= CONNECTIONS_MAX:  # ports change with every restart
                await self._planes.pop(next(iter(self._planes))).close()
            self._planes[address] = ControlPlane(address, dial=self._dial)
        return self._planes[address]
