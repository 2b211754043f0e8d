"""Client of the bookies' control planes, used by the repair, the operator and the command line.

Every call names the bookie process that it is meant for, and has a deadline; every answer is
checked to come from that process. Callers get plain values and errors of `bookie.errors`, never
protobuf messages or gRPC errors. Only a call for the health may be meant for whichever bookie is at
the address.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import grpc

from bookie.errors import FrameError, UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.tls.client_tls import ClientTls, from_environment
from bookie.tls.principals import Role
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from bookie.wire.admin.health import (
    BootRecord,
    CookieFix,
    DiskHealth,
    Health,
    PersonDecision,
    Phase,
)
from bookie.wire.admin.limbo_marks import Cleared, Mark
from bookie.wire.admin.request_answer import RequestAnswer, RetractionAnswer
from bookie.wire.identity import Identity, refusal

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),
    # A host may have an address before anything listens there, and packets to it may be dropped: by
    # default gRPC waits 20 s in such an attempt, and looks a name up again after 30 s only.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    ("grpc.service_config_disable_resolution", 1),
)
_NAME_OPTION: Final = "grpc.ssl_target_name_override"
"""Option of a channel: the name that the server's certificate must have, in place of the host that
was dialled."""
HANDSHAKE_FAILED: Final = (
    re.compile(r"CERTIFICATE_VERIFY_FAILED: [^:]*|Hostname [^:]*|[A-Z_]*CERTIFICATE[A-Z_]*"),
    re.compile("handshake failed"),
)
"""Patterns for gRPC's message about a failed TLS handshake; each finds the reason, the most exact
pattern comes first."""
_SERVICE: Final = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
_METHODS: Final = {method.input_type.name: method.name for method in _SERVICE.methods}
_WHILE_BOOTING: Final = (pb.GetHealthRequest, pb.ApproveCookieFixRequest)
"""Requests that a booting bookie can answer. Their answers decide nothing about anybody's entries,
so they may come from a bookie whose identity is not confirmed yet."""
_SHOWN_BY_HEALTH: Final = (pb.DrainRequest, pb.ApproveCookieFixRequest)
"""Requests whose effect the next health shows, whichever process carried them out. A bookie of an
older version does not say who it is, but it checks the bookie id that is meant: for these requests
its reply is enough."""
_PHASES: Final = {pb.Phase.Value(one.name): one for one in Phase if one is not Phase.UNKNOWN}


def _shared(value: Any, message: Any, *made: str) -> tuple[str, ...]:
    """Names of the fields that can be copied from `message` to `value` unchanged. `made`: fields to
    leave out, since they are computed from others.
    """
    return tuple(
        one.name
        for one in fields(value)
        if one.name in message.DESCRIPTOR.fields_by_name and one.name not in made
    )


_MADE: Final = ("phase", "boot", "disks", "cookie_fix", "ledgers_naming_it", "decisions")
_HEALTH: Final = _shared(Health, pb.Health, *_MADE)
_BOOT: Final = _shared(BootRecord, pb.BootRecord)
_DISK: Final = _shared(DiskHealth, pb.DiskHealth)

Dial = Callable[[str, str], tuple[Any, Any]]
"""Opens a connection: takes `host:port` and the id of the bookie that must be there (empty: any),
and returns a channel, whose `close` is awaited, and a stub that uses it."""
Range = tuple[int, int]
"""First and last entry id of a range, both inclusive."""


class Failure(Enum):
    """Why a call brought no answer."""

    SILENT = auto()
    """Nobody answers at the address, or the connection broke."""
    LATE = auto()
    REFUSED = auto()
    """The bookie does not do it now, or is not the bookie that was meant."""
    TOO_LARGE = auto()
    """The answer would be larger than a message may be."""
    MISTAKEN = auto()
    """The bookie does not know this request, or finds its arguments invalid."""


_FAILURES: Final = {
    grpc.StatusCode.DEADLINE_EXCEEDED: Failure.LATE,
    grpc.StatusCode.FAILED_PRECONDITION: Failure.REFUSED,
    grpc.StatusCode.PERMISSION_DENIED: Failure.REFUSED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Failure.TOO_LARGE,
    grpc.StatusCode.INVALID_ARGUMENT: Failure.MISTAKEN,
    grpc.StatusCode.UNIMPLEMENTED: Failure.MISTAKEN,
}
_FAILED_THERE: Final = (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.ABORTED)
"""A bookie ends a call so whose disk, or metadata store, fails it."""


class CallError(UnavailableError):
    """A call brought no answer. `words`: what the bookie said, or what gRPC said about the
    connection.
    """

    def __init__(self, target: str, code: grpc.StatusCode, words: str) -> None:
        self.failure = _FAILURES.get(code, Failure.SILENT)
        self.words = words or code.name
        if self.failure is Failure.REFUSED:
            sentence = f"refused at {target}: {words}"
        elif code in _FAILED_THERE:
            sentence = f"the bookie at {target} could not do it ({code.name}): {words}"
        elif why := next(
            (found[0] for one in HANDSHAKE_FAILED if (found := one.search(words))), ""
        ):
            sentence = (
                f"no TLS with the bookie at {target} ({why}): check whose credentials are "
                "shown (--tls), that both trust one authority, and both clocks"
            )
        else:
            sentence = (
                f"no bookie answers at {target} ({code.name}): check that it runs, that this is "
                "its admin port, and whether it wants TLS (--tls)"
            )
        super().__init__(sentence)


class Call(NamedTuple):
    """Which process must answer (None = any), and how long the answer may take."""

    meant: Identity | None
    timeout_s: float


class Held(NamedTuple):
    """What a bookie holds of a ledger; `status` and the sets of entries are as they came (see the
    proto).
    """

    ledger_id: LedgerId
    status: int
    entries: bytes
    limbo: bool
    unchecked: bool
    lac: int
    lost: bytes


def dial(target: str, bookie_id: str = "") -> tuple[Any, Any]:
    """Connect to a control plane (see `Dial`), under TLS when the environment names credentials."""
    return dial_as(has_tls=True)(target, bookie_id)


def dial_as(*, has_tls: bool) -> Dial:
    """A `Dial` for a bookie whose registration says whether it has TLS (`has_tls`). A bookie
    without TLS is asked in plaintext, where the environment accepts that.
    """
    tls = from_environment()
    return dial_with(tls if tls is not None and tls.is_for(has_tls=has_tls) else None)


def dial_with(tls: ClientTls | None) -> Dial:
    """A `Dial` that uses these credentials; None: it connects in plaintext."""

    def to(target: str, bookie_id: str) -> tuple[Any, Any]:
        if tls is None:
            channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        else:
            name = tls.server_name(Role.BOOKIE, bookie_id) if bookie_id else None
            named = () if name is None else ((_NAME_OPTION, name),)
            channel = grpc.aio.secure_channel(
                target, tls.channel_credentials(), options=(*_OPTIONS, *named)
            )
        return channel, BookieAdminStub(channel)  # type: ignore[no-untyped-call]

    return to


class ControlPlane:
    """Client of the control plane at one address, which may belong to another bookie by now.

    Every method raises UnavailableError when the process that is meant gave no answer. The error is
    a CallError with the reason when nobody answered or the bookie refused. `bookie_id`: the bookie
    that must be there, empty = any; under TLS its certificate must name it. `heard` is called with
    the identity behind each answer.
    """

    def __init__(
        self,
        target: str,
        *,
        bookie_id: str = "",
        dial: Dial = dial,
        heard: Callable[[Identity], None] = lambda _identity: None,
    ) -> None:
        self.target = target
        self._channel, self._stub = dial(target, bookie_id)
        self._heard = heard

    async def close(self) -> None:
        await self._channel.close(None)

    async def health(self, call: Call) -> Health:
        """Ask how the bookie is; it answers in any phase of its boot."""
        reply, identity = await self._ask(call, pb.GetHealthRequest())
        return _health(reply, identity)

    async def approve_cookie_fix(self, call: Call, *, plan_id: str, by: str) -> RequestAnswer:
        """Approve a cookie fix: a bookie that waits for it goes on with its replaced disks."""
        request = pb.ApproveCookieFixRequest(plan_id=plan_id, approved_by=by)
        reply, _identity = await self._ask(call, request)
        return RequestAnswer(reply.accepted, reply.message)

    async def approve_collection(self, call: Call, *, plan_id: str, by: str) -> RequestAnswer:
        """Approve a garbage collection that the bookie held back for a person to look at."""
        request = pb.ApproveCollectionRequest(plan_id=plan_id, approved_by=by)
        reply, _identity = await self._ask(call, request)
        return RequestAnswer(reply.accepted, reply.message)

    async def drain(self, call: Call, *, cancel: bool) -> None:
        """Have the bookie take no new entries, even after a restart; `cancel`: have it take them
        again.
        """
        await self._ask(call, pb.DrainRequest(cancel=cancel))

    async def set_read_only(self, call: Call, *, read_only: bool) -> Phase:
        """Have the bookie take no new entries until its process ends, or take them again. Returns
        its phase.
        """
        reply, _identity = await self._ask(call, pb.SetReadOnlyRequest(read_only=read_only))
        return _PHASES.get(reply.phase, Phase.UNKNOWN)

    async def flush(self, call: Call) -> int:
        """Have the bookie write all that it has accepted to its disks. Returns the size of its logs
        in bytes.
        """
        reply, _identity = await self._ask(call, pb.FlushRequest())
        return int(reply.log_bytes)

    async def marks(self, call: Call, *, after: int, limit: int) -> tuple[list[Mark], bool]:
        """A page of the bookie's marks, unchecked ledgers included, by rising ledger id; and
        whether there are more.
        """
        request = pb.ListLimboRequest(after_ledger_id=after, limit=limit, include_unchecked=True)
        reply, _identity = await self._ask(call, request)
        marks = [Mark(LedgerId(m.ledger_id), m.limbo, m.boot_epoch) for m in reply.ledgers]
        return marks, bool(reply.more)

    async def held(self, call: Call, ledger_ids: Sequence[LedgerId]) -> list[Held]:
        """What the bookie holds of these ledgers. About a ledger that the answer leaves out nothing
        is known.
        """
        reply, _identity = await self._ask(call, pb.GetAvailabilityRequest(ledger_ids=ledger_ids))
        return [
            Held(LedgerId(a.ledger_id), a.status, a.entries, a.limbo, a.unchecked, a.lac, a.lost)
            for a in reply.ledgers
        ]

    async def clear(self, call: Call, ledger_ids: Sequence[LedgerId]) -> list[Cleared]:
        """Have the bookie check whether its marks of these ledgers may be removed (R27), and remove
        them if so.
        """
        reply, _identity = await self._ask(call, pb.ClearLimboRequest(ledger_ids=ledger_ids))
        return [
            Cleared(LedgerId(one.ledger_id), one.cleared, one.reason, one.message)
            for one in reply.results
        ]

    async def record_loss(
        self,
        call: Call,
        ledger_id: LedgerId,
        lost: Iterable[Range],
        *,
        reason: str,
        by_person: bool,
        answered_by: Sequence[BookieId],
    ) -> RequestAnswer:
        """Have the bookie record entries as permanently lost; the record is durable when it
        accepts.
        """
        request = pb.RecordLossRequest(
            ledger_id=ledger_id,
            ranges=_ranges(lost),
            by_person=by_person,
            reason=reason,
            answered_by=answered_by,
        )
        reply, _identity = await self._ask(call, request)
        return RequestAnswer(reply.recorded, reply.message)

    async def retract_loss(
        self, call: Call, ledger_id: LedgerId, entries: Iterable[Range], *, by: str, reason: str
    ) -> RetractionAnswer:
        """Have the bookie take back its loss record of these entries, or of all when none are
        named; this is durable when it accepts.
        """
        request = pb.RetractLossRequest(
            ledger_id=ledger_id, ranges=_ranges(entries), retracted_by=by, reason=reason
        )
        reply, _identity = await self._ask(call, request)
        return RetractionAnswer(reply.retracted, reply.message, reply.entries, reply.in_limbo)

    async def recheck(
        self, call: Call, ledger_id: LedgerId, entries: Iterable[Range]
    ) -> list[Range]:
        """Have the bookie verify its own copies of these entries; returns the ranges that it
        rejected.
        """
        request = pb.RecheckEntriesRequest(ledger_id=ledger_id, ranges=_ranges(entries))
        reply, _identity = await self._ask(call, request)
        return [(item.first, item.last) for item in reply.rejected]

    async def _ask(self, call: Call, request: Any) -> tuple[Any, Identity]:
        """Send one request; returns the reply and the identity of the process that made it."""
        meant = call.meant
        method = getattr(self._stub, _METHODS[type(request).__name__])
        metadata = () if meant is None else meant.to_metadata()
        try:
            under_way = method(request, timeout=call.timeout_s, metadata=metadata)
            reply = await under_way
        except grpc.aio.UsageError as error:
            raise UnavailableError(
                f"the connection to {self.target} was closed before the call: ask again"
            ) from error
        except grpc.aio.AioRpcError as error:
            raise CallError(self.target, error.code(), error.details() or "") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled the caller: the channel was closed, as the bookie has another address
            # now.
            raise UnavailableError(f"the call was cut off: {type(request).__name__}") from None
        identity = _identity_of(await under_way.initial_metadata(), reply)
        if identity is None:
            if meant is not None and isinstance(request, _SHOWN_BY_HEALTH):
                return reply, meant
            raise UnavailableError(
                "a bookie does not say who it is: it is of an older version, upgrade it"
            )
        if meant is not None:
            booting = isinstance(request, _WHILE_BOOTING)
            why = refusal(meant, identity, while_booting=booting)
            if why:
                raise UnavailableError(
                    f"another process answers at the address of {meant.bookie}: {why}"
                )
        self._heard(identity)
        return reply, identity


@asynccontextmanager
async def control_plane(
    target: str, bookie_id: str = "", *, has_tls: bool = True
) -> AsyncIterator[ControlPlane]:
    """A client of the control plane at host:port, which is closed at the end. `has_tls`: what the
    registration of the bookie says.
    """
    plane = ControlPlane(target, bookie_id=bookie_id, dial=dial_as(has_tls=has_tls))
    try:
        yield plane
    finally:
        await plane.close()


def _identity_of(metadata: Any, reply: Any) -> Identity | None:
    """The process that made the reply; None = a bookie of an older version, which names itself in
    its health only.
    """
    try:
        identity = Identity.from_metadata(metadata or ())
    except FrameError as error:
        raise UnavailableError(f"a bookie does not say who it is: {error}") from error
    if identity is None and isinstance(reply, pb.Health):
        return Identity(reply.instance_id, reply.bookie_id, reply.boot.boot_epoch)
    return identity


def _ranges(ranges: Iterable[Range]) -> list[pb.EntryRange]:
    return [pb.EntryRange(first=first, last=last) for first, last in ranges]


def _health(said: pb.Health, identity: Identity) -> Health:
    fix = said.cookie_fix
    return Health(
        **_said(said, _HEALTH),
        phase=_PHASES.get(said.phase, Phase.UNKNOWN),
        boot=_boot_record(said.boot) if said.HasField("boot") and said.boot.boot_epoch else None,
        disks=tuple(DiskHealth(**_said(disk, _DISK)) for disk in said.disks),
        cookie_fix=(
            CookieFix(fix.plan_id, tuple(fix.disk_indexes), fix.description, fix.policy)
            if said.HasField("cookie_fix") and fix.plan_id
            else None
        ),
        decisions=tuple(
            PersonDecision(one.at_ms, one.kind, one.decided_by, one.about) for one in said.decisions
        ),
        ledgers_naming_it=said.ledgers_naming_it if said.ledgers_counted else None,
        answered_by=identity,
    )


def _boot_record(said: pb.BootRecord) -> BootRecord:
    return BootRecord(
        **_said(said, _BOOT),
        epoch=said.boot_epoch,
        started_at=datetime.fromtimestamp(said.started_at_ms / 1000, UTC),
    )


def _said(message: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(message, name) for name in names}
