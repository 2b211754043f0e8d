"""The operator's end of bookies' control planes (gRPC): health, approvals of cookie fixes, drains.

Every call has a deadline, and names the process it means: pods get the addresses of pods that are
gone. A bookie that does not answer is None, which nobody reads as healthy; so is another's answer.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

import grpc
from bookie.errors import UnavailableError
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from bookie.wire.admin.calls import CHANNEL_OPTIONS, ask
from bookie.wire.identity import Identity, refusal

from bookie_operator.observed import BootRecord, CookieFixRequest, DiskHealth, Health, Phase

LOGGER: Final = logging.getLogger(__name__)
DEADLINE_S: Final = 3.0
CHANNELS_MAX: Final = 200
_PHASES: Final = {
    pb.BOOTING: Phase.BOOTING,
    pb.MARKING: Phase.MARKING,
    pb.AWAITING_APPROVAL: Phase.AWAITING_APPROVAL,
    pb.SERVING: Phase.SERVING,
    pb.READ_ONLY: Phase.READ_ONLY,
    pb.DRAINING: Phase.DRAINING,
    pb.STOPPING: Phase.STOPPING,
    pb.REFUSED: Phase.REFUSED,
}


Dial = Callable[[str], tuple[Any, Any]]
"""From `host:port` to a channel, whose `close` is awaited, and a stub over it."""


def _dial(target: str) -> tuple[Any, Any]:
    channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    return channel, cast(Any, BookieAdminStub)(channel)  # generated, untyped


class Control(Protocol):
    """What observing and acting need; `address` is host:port, `meant` who must answer there."""

    async def health(self, address: str, meant: Identity) -> Health | None: ...

    async def approve(
        self, address: str, meant: Identity, *, plan_id: str, approved_by: str
    ) -> None: ...

    async def drain(self, address: str, meant: Identity, *, cancel: bool) -> None: ...

    async def close(self) -> None: ...


class GrpcControl:
    """Control planes over gRPC, one channel per address."""

    def __init__(self, *, dial: Dial = _dial) -> None:
        self._dial = dial
        self._lines: dict[str, tuple[Any, Any]] = {}

    async def health(self, address: str, meant: Identity) -> Health | None:
        """None of another process than the one meant, too: LOGGER tells who answered."""
        try:
            told = await self._ask(address, meant, pb.GetHealthRequest())
        except UnavailableError as error:
            LOGGER.info("no health of %s: %s", meant.bookie, error)
            return None
        return health_of(told, meant)

    async def approve(
        self, address: str, meant: Identity, *, plan_id: str, approved_by: str
    ) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        request = pb.ApproveCookieFixRequest(plan_id=plan_id, approved_by=approved_by)
        reply = await self._ask(address, meant, request)
        if not reply.accepted:
            raise UnavailableError(f"the bookie at {address} refused: {reply.message}")

    async def drain(self, address: str, meant: Identity, *, cancel: bool) -> None:
        """UnavailableError when the bookie did not take it; it may be asked again."""
        await self._ask(address, meant, pb.DrainRequest(cancel=cancel))

    async def _ask(self, address: str, meant: Identity, request: Any) -> Any:
        stub = await self._stub(address)
        try:
            reply, _told = await ask(stub, request, meant=meant, timeout_s=DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            raise UnavailableError(f"the bookie at {address}: {error.details()}") from error
        return reply

    async def close(self) -> None:
        for channel, _stub in self._lines.values():
            await channel.close(None)
        self._lines.clear()

    async def _stub(self, address: str) -> Any:
        if address not in self._lines:
            while len(self._lines) >= CHANNELS_MAX:  # ports change with every restart
                oldest, _stub = self._lines.pop(next(iter(self._lines)))
                await oldest.close(None)
            self._lines[address] = self._dial(address)
        return self._lines[address][1]


def health_of(told: pb.Health, meant: Identity) -> Health | None:
    """A bookie's answer as the planner reads it.

    None for a phase this version does not know, and of another bookie or cluster than is meant.
    """
    phase = _PHASES.get(told.phase)
    found = Identity(told.instance_id, told.bookie_id, told.boot.boot_epoch)
    if phase is None or refusal(meant, found, while_booting=True):
        return None
    fix = told.cookie_fix
    return Health(
        phase=phase,
        message=told.message,
        boot=_boot_record(told.boot) if told.HasField("boot") and told.boot.boot_epoch else None,
        disks=tuple(
            DiskHealth(
                role=disk.role,
                index=disk.index,
                disk_id=disk.disk_id,
                verdict=disk.verdict,
                volume_uid=disk.volume_uid,
                total_bytes=disk.total_bytes,
                free_bytes=disk.free_bytes,
            )
            for disk in told.disks
        ),
        limbo_ledgers=told.limbo_ledgers,
        unchecked_ledgers=told.unchecked_ledgers,
        losses_recorded=told.losses_recorded,
        instance_id=told.instance_id,
        cookie_fix=(
            CookieFixRequest(fix.plan_id, tuple(fix.disk_indexes), fix.description, fix.policy)
            if told.HasField("cookie_fix") and fix.plan_id
            else None
        ),
        draining=told.draining,
        metadata_rolled_back=told.metadata_rolled_back,
        collection_held=told.collection_held,
        ledgers_naming_it=told.ledgers_naming_it if told.ledgers_counted else None,
    )


def _boot_record(told: pb.BootRecord) -> BootRecord:
    return BootRecord(
        epoch=told.boot_epoch,
        clean=told.clean,
        reason=told.reason,
        started_at=datetime.fromtimestamp(told.started_at_ms / 1000, UTC),
        mode=told.mode,
        previous_mode=told.previous_mode,
        ledgers_fenced=told.ledgers_fenced,
        ledgers_in_limbo=told.ledgers_in_limbo,
        ledgers_unchecked=told.ledgers_unchecked,
        cookie_fixed=told.cookie_fixed,
    )
