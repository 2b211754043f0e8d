"""The control plane over gRPC: turns requests into values for `control.Control`, and its values
into replies.

It answers from the start of the process; a call that needs the storage gets UNAVAILABLE while the
storage is not open. This module decides nothing: `control` and `marks` do, and they know no gRPC
message.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import grpc

from bookie.boot.boot import BootRecord
from bookie.errors import (
    BadRequestError,
    BookieError,
    FrameError,
    NotReadyError,
    StorageError,
    UndecidableError,
)
from bookie.hosts import at_port
from bookie.ids import LedgerId
from bookie.protocol.clearing import ClearVerdict
from bookie.server.admin_requests import entries, ledger_id, ledger_ids, options, parsed
from bookie.server.admin_roles import ASKED_BY, decided_by, refused_by_role, refused_word, sent_by
from bookie.server.control import Control, DiskFacts, Health
from bookie.server.marks import Availability, LossRequest, RetractionRequest
from bookie.server.port_tls import PortTls
from bookie.server.settings import Limits
from bookie.server.state import Phase
from bookie.storage.decisions import PersonDecision
from bookie.tls.shown import Shown
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin import bookie_admin_pb2_grpc as rpc
from bookie.wire.identity import BOOKIE_KEY, CLUSTER_KEY, Identity, refusal

log = logging.getLogger(__name__)

LIMBO_PAGE = 10_000
SENTENCE_CHARACTERS_MAX = 2000
"""Limit for the sentence of an error: it is sent in a header, whose length is bounded."""
MAY_MEAN_ANYBODY = "GetHealth"
"""The one call that need not name the bookie it is meant for: people make it by address alone, also
to a bookie that is booting."""
Request = TypeVar("Request")
Reply = TypeVar("Reply")


def _answering(
    method: Callable[[Any, Any], Awaitable[Reply]],
) -> Callable[[Any, Any, Any], Awaitable[Reply]]:
    """Turn our errors into gRPC codes with their sentence, so that no error looks like an empty
    answer.
    """

    async def answer(self: Any, request: Any, context: Any) -> Reply:
        try:
            return await method(self, request)
        except BookieError as error:
            code, sentence = _code(error), str(error)[:SENTENCE_CHARACTERS_MAX]
        # `abort` leaves a reference cycle that holds this frame until it is garbage-collected.
        del request
        await context.abort(code, sentence)
        raise AssertionError("abort raises")

    return answer


class AdminServicer(rpc.BookieAdminServicer):
    """One method per rpc; each turns messages into values and back."""

    def __init__(self, bookie: Control) -> None:
        self._bookie = bookie

    async def GetHealth(self, request: Any, context: Any) -> pb.Health:
        return _health(await self._bookie.health())

    @_answering
    async def ListLimbo(self, request: Any) -> pb.ListLimboReply:
        marked = self._bookie.serving.marks.marked(include_unchecked=request.include_unchecked)
        after = [item for item in marked if item.ledger_id > request.after_ledger_id]
        limit = min(request.limit or LIMBO_PAGE, LIMBO_PAGE)
        ledgers = [
            pb.LimboLedger(ledger_id=item.ledger_id, limbo=item.limbo, boot_epoch=item.boot_epoch)
            for item in after[:limit]
        ]
        return pb.ListLimboReply(ledgers=ledgers, more=len(after) > limit)

    @_answering
    async def GetAvailability(self, request: Any) -> pb.GetAvailabilityReply:
        found = await self._bookie.serving.marks.availability(ledger_ids(request.ledger_ids))
        return pb.GetAvailabilityReply(ledgers=[_availability(item) for item in found])

    @_answering
    async def ClearLimbo(self, request: Any) -> pb.ClearLimboReply:
        wanted = ledger_ids(request.ledger_ids)
        verdicts = await self._bookie.serving.marks.clear(wanted)
        return pb.ClearLimboReply(results=map(_clear_result, wanted, verdicts))

    async def RecordLoss(self, request: Any, context: Any) -> pb.RecordLossReply:
        if refused := refused_word(by_person=request.by_person):
            log.warning("refuse a loss record from %s: %s", context.peer(), refused)
            del request  # as above
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, refused)
        return await self._record_loss(request, context)

    @_answering
    async def _record_loss(self, request: Any) -> pb.RecordLossReply:
        refusal = await self._bookie.serving.marks.record_loss(_loss_request(request))
        return pb.RecordLossReply(recorded=not refusal, message=refusal)

    @_answering
    async def RetractLoss(self, request: Any) -> pb.RetractLossReply:
        ranges = request.ranges
        wish = RetractionRequest(
            ledger_id(request.ledger_id),
            entries=entries(ranges) if ranges else None,
            by=decided_by(request.retracted_by),
            reason=request.reason,
        )
        done = await self._bookie.serving.marks.retract_loss(wish)
        return pb.RetractLossReply(
            retracted=not done.refusal,
            message=done.refusal,
            entries=len(done.entries),
            in_limbo=done.into_limbo,
        )

    @_answering
    async def RecheckEntries(self, request: Any) -> pb.RecheckEntriesReply:
        wanted, copies = ledger_id(request.ledger_id), entries(request.ranges)
        done = await self._bookie.serving.marks.recheck(wanted, copies)
        ranges = [pb.EntryRange(first=a, last=b) for a, b in done.rejected.ranges()]
        return pb.RecheckEntriesReply(rejected=ranges, message=done.message)

    async def ApproveCookieFix(self, request: Any, context: Any) -> pb.ApproveCookieFixReply:
        refusal = self._bookie.approve(request.plan_id, decided_by(request.approved_by))
        return pb.ApproveCookieFixReply(accepted=not refusal, message=refusal)

    @_answering
    async def ApproveCollection(self, request: Any) -> pb.ApproveCollectionReply:
        by = decided_by(request.approved_by)
        refusal = await self._bookie.approve_collection(request.plan_id, by)
        return pb.ApproveCollectionReply(accepted=not refusal, message=refusal)

    @_answering
    async def SetReadOnly(self, request: Any) -> pb.SetReadOnlyReply:
        log.warning("read-only %s by %s", request.read_only, sent_by() or "somebody unknown")
        return pb.SetReadOnlyReply(
            phase=_phase(await self._bookie.set_read_only(request.read_only))
        )

    @_answering
    async def Drain(self, request: Any) -> pb.DrainReply:
        what = "cancelled" if request.cancel else "asked for"
        log.warning("drain %s by %s", what, sent_by() or "somebody unknown")
        phase, held = await self._bookie.drain(request.cancel)
        return pb.DrainReply(phase=_phase(phase), ledgers_held=held)

    @_answering
    async def Flush(self, request: Any) -> pb.FlushReply:
        return pb.FlushReply(log_bytes=await self._bookie.serving.marks.flush())


class IdentityGuard(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in stubs only
    """Refuses calls that are meant for another process, and calls of principals that may not make
    them; adds this process's identity to each reply.
    """

    def __init__(
        self,
        identity: Callable[[], Identity],
        hear_epoch: Callable[[int], None] = lambda _epoch: None,
        *,
        tls: PortTls | None = None,
    ) -> None:
        """The guard calls `hear_epoch` when a caller names a later boot of this bookie. `tls`: the
        port's TLS; None = plain, and the caller is unknown.
        """
        self._identity = identity
        self._hear_epoch = hear_epoch
        self._tls = tls

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        details = handler_call_details
        handler = await continuation(details)
        if handler is None:  # no such method: grpc answers
            return None
        method = details.method.rpartition("/")[2]

        async def answer(_requests: Any, context: Any) -> Any:
            if self._tls is not None:
                shown, own = _shown(context), self._tls.credentials.principal
                caller, ended = shown.principal, shown.why_not(datetime.now(UTC))
                if refused := refused_by_role(method, caller, own) or ended:
                    log.warning("refuse a call from %s: %s", context.peer(), refused)
                    await context.abort(grpc.StatusCode.PERMISSION_DENIED, refused)
                ASKED_BY.set(caller)
            # Only after the roles: an epoch that a caller names may end our lease.
            if why := self.judge(method, details.invocation_metadata):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
            await context.send_initial_metadata(self._identity().to_metadata())
            # Not by iterating `requests`: that keeps the message until the next garbage collection.
            taken, wrong = parsed(handler.request_deserializer, await context.read())
            if wrong:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
            return await handler.unary_unary(taken.pop(), context)  # no reference stays here

        # The handler takes a stream of one message, which callers cannot tell from a plain call: so
        # it reads no message of a caller that it refuses.
        return grpc.stream_unary_rpc_method_handler(
            answer,
            response_serializer=handler.response_serializer,
        )

    def judge(self, method: str, metadata: Any) -> str:
        """Why this call is not meant for this process; empty when it is."""
        own = self._identity()
        try:
            meant = Identity.from_metadata(metadata)
        except FrameError as error:
            return str(error)
        if method != MAY_MEAN_ANYBODY and (meant is None or (own.cluster and not meant.cluster)):
            return (
                f"{method} does not say whom it means: it needs {BOOKIE_KEY} and {CLUSTER_KEY} as "
                "metadata; a caller of an older version has to be upgraded"
            )
        if meant is None:
            return ""
        if own.is_outlived_by(meant):
            self._hear_epoch(meant.epoch)
        return refusal(meant, own, while_booting=True)


def _shown(context: Any) -> Shown:
    """The client certificate of this call's connection."""
    return Shown.from_pem(context.auth_context().get("x509_pem_cert", (b"",))[0])


class AdminServer:
    """The gRPC server on the control plane's port."""

    def __init__(
        self, bookie: Control, *, tls: PortTls | None = None, limits: Limits | None = None
    ) -> None:
        """`tls`: the port's TLS; None = plain, and callers are unknown."""
        self._tls = tls
        self._limits = limits or Limits()
        self._servicer = AdminServicer(bookie)
        self._guard = IdentityGuard(bookie.identity, bookie.hear_epoch, tls=tls)
        self._server: Any = None

    async def start(self, host: str, port: int) -> int:
        self._server = grpc.aio.server(
            interceptors=[self._guard],
            options=options(self._limits),
            maximum_concurrent_rpcs=self._limits.control_calls,
        )
        rpc.add_BookieAdminServicer_to_server(self._servicer, self._server)  # type: ignore[no-untyped-call]
        address = at_port(host, port)
        chosen: int
        if self._tls is None:
            chosen = self._server.add_insecure_port(address)
        else:
            credentials = self._tls.credentials.server_credentials()
            chosen = self._server.add_secure_port(address, credentials)
        await self._server.start()
        return chosen

    async def stop(self, grace_s: float = 1.0) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)


def _code(error: BookieError) -> grpc.StatusCode:
    if isinstance(error, NotReadyError):
        return grpc.StatusCode.UNAVAILABLE
    if isinstance(error, BadRequestError):
        return grpc.StatusCode.INVALID_ARGUMENT
    if isinstance(error, StorageError):
        return grpc.StatusCode.DATA_LOSS
    if isinstance(error, UndecidableError):
        return grpc.StatusCode.FAILED_PRECONDITION
    return grpc.StatusCode.ABORTED


def _phase(phase: Phase) -> Any:
    return pb.Phase.Name(int(phase))


def _health(found: Health) -> pb.Health:
    state, plan, count = found.state, found.plan, found.count
    health = pb.Health(
        bookie_id=state.bookie_id,
        phase=_phase(state.phase),
        message=state.explanation,
        limbo_cleared_total=state.traffic.limbo_cleared,
        entries_total=state.traffic.entries_added,
        bytes_total=state.traffic.bytes_added,
        version=found.version,
        draining=state.is_draining,
        metadata_rolled_back=state.metadata_rolled_back,
        collection_held=state.collection_held,
        collection_plan_id=state.collection_plan,
        instance_id=found.instance_id,
        disks=map(_disk, found.disks),
        limbo_ledgers=found.limbo_ledgers,
        unchecked_ledgers=found.unchecked_ledgers,
        losses_recorded=found.losses_recorded,
        decisions=map(_decision, found.decisions),
    )
    if plan is not None:
        health.cookie_fix.CopyFrom(
            pb.CookieFix(
                plan_id=plan.plan_id,
                disk_indexes=plan.disks,
                description=plan.description,
                policy=found.fix_policy,
            )
        )
    if found.record is not None:
        health.boot.CopyFrom(_boot_record(found.record))
    if count is not None:
        health.ledgers_counted = True
        health.ledgers_naming_it, health.counted_at_ms = count.ledgers, count.at_ms
    return health


def _decision(one: PersonDecision) -> pb.PersonDecision:
    return pb.PersonDecision(at_ms=one.at_ms, kind=one.kind, decided_by=one.by, about=one.about)


def _boot_record(record: BootRecord) -> pb.BootRecord:
    return pb.BootRecord(
        boot_epoch=record.boot_epoch,
        clean=record.clean,
        reason=record.reason,
        started_at_ms=record.started_at_ms,
        mode=record.mode.value,
        previous_mode=record.previous_mode.value if record.previous_mode else "",
        ledgers_fenced=record.ledgers_fenced,
        ledgers_in_limbo=record.ledgers_in_limbo,
        ledgers_unchecked=record.ledgers_unchecked,
        cookie_fixed=record.cookie_fixed,
        ledgers_unreadable=record.ledgers_unreadable,
        unreadable_ledger_ids=record.unreadable,
    )


def _disk(disk: DiskFacts) -> pb.DiskHealth:
    found, space = disk.found, disk.space
    return pb.DiskHealth(
        path=str(found.path),
        role=found.role,
        index=found.index,
        disk_id=found.stamp.disk_id if found.stamp else "",
        verdict=disk.verdict.value,
        total_bytes=space.total_bytes,
        free_bytes=space.free_bytes,
        volume_uid=found.volume_uid,
    )


def _availability(item: Availability) -> pb.LedgerAvailability:
    return pb.LedgerAvailability(
        ledger_id=item.ledger_id,
        status=int(item.status),
        entries=item.held.encode(),
        limbo=item.limbo,
        unchecked=item.unchecked,
        fenced=item.fenced,
        lac=item.lac,
        lost=b"" if item.lost.is_empty else item.lost.encode(),
    )


def _clear_result(ledger_id: LedgerId, verdict: ClearVerdict) -> pb.ClearLimboResult:
    return pb.ClearLimboResult(
        ledger_id=ledger_id,
        cleared=verdict.may_clear,
        reason=verdict.reason.value,
        message=verdict.message,
        entries_missing=verdict.missing,
    )


def _loss_request(request: Any) -> LossRequest:
    return LossRequest(
        ledger_id(request.ledger_id),
        entries(request.ranges),
        by_person=request.by_person,
        reason=request.reason,
        answered_by=frozenset(request.answered_by),
        said_by=sent_by(),
        decided_by=decided_by("") if request.by_person else "",
    )
