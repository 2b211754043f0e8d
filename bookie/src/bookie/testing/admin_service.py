"""A real gRPC server in front of fake control planes: what `GrpcControl` is tested against."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import ADMIN_ENDPOINT, RUN_ENDPOINT, BookieInfo, Endpoint
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.server.admin import IdentityGuard
from bookie.testing.control import FakeControl
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    add_BookieAdminServicer_to_server,
)


class FakeAdminService(BookieAdminServicer):
    """The control plane of one fake bookie; `marks_per_page` bounds its pages from below."""

    def __init__(self, control: FakeControl, bookie_id: BookieId, *, marks_per_page: int) -> None:
        self._control = control
        self._bookie_id = bookie_id
        self._marks_per_page = marks_per_page

    async def ListLimbo(self, request: Any, context: Any) -> pb.ListLimboReply:
        found = await self._control.list_marks(self._bookie_id)
        if found.status is not Status.OK:
            await context.abort(grpc.StatusCode.UNAVAILABLE, found.message)
        after = [m for m in found.marks if m.ledger_id > request.after_ledger_id]
        page = after[: min(request.limit or 10_000, self._marks_per_page)]
        return pb.ListLimboReply(
            ledgers=[
                pb.LimboLedger(ledger_id=m.ledger_id, limbo=m.limbo, boot_epoch=m.boot_epoch)
                for m in page
            ],
            more=len(page) < len(after),
        )

    async def GetAvailability(self, request: Any, context: Any) -> pb.GetAvailabilityReply:
        ledger_ids = [LedgerId(i) for i in request.ledger_ids]
        found = await self._control.availability(self._bookie_id, ledger_ids)
        if any(holding.status is Status.UNREACHABLE for holding in found.values()):
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{self._bookie_id} is down")
        return pb.GetAvailabilityReply(
            ledgers=[
                pb.LedgerAvailability(
                    ledger_id=ledger_id,
                    status=holding.status,
                    entries=holding.entries.encode(),
                    limbo=holding.limbo,
                    unchecked=holding.unchecked,
                    lac=holding.lac,
                    lost=holding.lost.encode() if holding.lost else b"",
                )
                for ledger_id, holding in found.items()
            ]
        )

    async def ClearLimbo(self, request: Any, context: Any) -> pb.ClearLimboReply:
        ledger_ids = [LedgerId(i) for i in request.ledger_ids]
        found = await self._control.clear(self._bookie_id, ledger_ids)
        return pb.ClearLimboReply(
            results=[
                pb.ClearLimboResult(
                    ledger_id=c.ledger_id, cleared=c.cleared, reason=c.reason, message=c.message
                )
                for c in found.values()
            ]
        )

    async def RecordLoss(self, request: Any, context: Any) -> pb.RecordLossReply:
        answer = await self._control.record_loss(
            self._bookie_id,
            LedgerId(request.ledger_id),
            EntrySet.from_ranges((r.first, r.last) for r in request.ranges),
            reason=request.reason,
            by_person=request.by_person,
            answered_by=[BookieId(b) for b in request.answered_by],
        )
        return pb.RecordLossReply(recorded=answer.accepted, message=answer.message)

    async def RetractLoss(self, request: Any, context: Any) -> pb.RetractLossReply:
        answer = await self._control.retract_loss(
            self._bookie_id,
            LedgerId(request.ledger_id),
            EntrySet.from_ranges((r.first, r.last) for r in request.ranges),
            by=request.retracted_by,
            reason=request.reason,
        )
        return pb.RetractLossReply(
            retracted=answer.accepted,
            message=answer.message,
            entries=answer.entries,
            in_limbo=answer.in_limbo,
        )

    async def RecheckEntries(self, request: Any, context: Any) -> pb.RecheckEntriesReply:
        rejected = await self._control.recheck(
            self._bookie_id,
            LedgerId(request.ledger_id),
            EntrySet.from_ranges((r.first, r.last) for r in request.ranges),
        )
        ranges = [pb.EntryRange(first=a, last=b) for a, b in rejected.ranges()]
        return pb.RecheckEntriesReply(rejected=ranges)

    async def GetHealth(self, request: Any, context: Any) -> pb.Health:
        draining = await self._control.is_draining(self._bookie_id)
        if draining is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{self._bookie_id} is down")
        return pb.Health(bookie_id=self._bookie_id, draining=bool(draining))

    async def Drain(self, request: Any, context: Any) -> pb.DrainReply:
        answer = await self._control.drain(self._bookie_id, cancel=request.cancel)
        if not answer.accepted:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.message)
        return pb.DrainReply()

    async def Flush(self, request: Any, context: Any) -> pb.FlushReply:
        if await self._control.flush(self._bookie_id) is not Status.OK:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{self._bookie_id} is down")
        return pb.FlushReply()


@asynccontextmanager
async def served_control(
    control: FakeControl, *, marks_per_page: int = 10_000
) -> AsyncIterator[dict[BookieId, int]]:
    """Serve and register the control plane of every bookie of the fleet; their ports."""
    cluster = await control.store.initialise()
    servers: dict[BookieId, tuple[Any, int]] = {}
    for bookie_id in control.fleet.ids:
        bookie = control.fleet[bookie_id]
        guard = IdentityGuard(partial(bookie.identity, cluster))
        server = grpc.aio.server(interceptors=[guard])
        service = FakeAdminService(control, bookie_id, marks_per_page=marks_per_page)
        add_BookieAdminServicer_to_server(service, server)  # type: ignore[no-untyped-call]
        servers[bookie_id] = (server, server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        endpoints = (
            Endpoint(RUN_ENDPOINT, "127.0.0.1", 1, RUN_ENDPOINT),
            Endpoint(ADMIN_ENDPOINT, "127.0.0.1", servers[bookie_id][1], "grpc"),
        )
        await control.store.register(BookieInfo(bookie_id, endpoints, bookie.properties))
    try:
        yield {bookie_id: port for bookie_id, (_server, port) in servers.items()}
    finally:
        for server, _port in servers.values():
            await server.stop(None)
