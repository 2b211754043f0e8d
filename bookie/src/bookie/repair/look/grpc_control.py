"""The bookies' control planes as a `BookieControl`: found by the ids that bookies registered with.

One connection per bookie, found by its registered `bookie-admin` endpoint; at most CALLS_MAX calls
at once to each; every call has a deadline. No answer is an answer (UNREACHABLE); only a settings
mistake or a defect of ours raises.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from bookie.client.addresses import Address, AddressBook
from bookie.errors import UnavailableError
from bookie.hosts import at_port
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import ADMIN_ENDPOINT, MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.status import Status
from bookie.repair.judge.columns import NO_ANSWER, Answer, holding_of
from bookie.repair.judge.expect import Holding
from bookie.repair.look.bookie_control import Marks
from bookie.wire.admin.client import Call, CallError, ControlPlane, Dial, Failure, dial_as
from bookie.wire.admin.limbo_marks import Cleared, Mark
from bookie.wire.admin.request_answer import RequestAnswer, RetractionAnswer

Reply = TypeVar("Reply")

CALLS_MAX: Final = 4
LEDGERS_PER_CALL: Final = 256
MARKS_PER_PAGE: Final = 10_000
MARK_PAGES_MAX: Final = 10_000
_STATUS_OF_FAILURE: Final = {
    Failure.TOO_LARGE: Status.OVERLOADED,
    Failure.MISTAKEN: Status.BAD_REQUEST,
}


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Deadlines in seconds; `address_ttl_s`: how long registrations are trusted."""

    deadline_s: float = 10.0
    slow_deadline_s: float = 60.0
    """Deadline of calls that read indexes or sync disks: availability, clear, flush, record
    loss."""
    address_ttl_s: float = 2.0


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection to a bookie's control plane, and a limit on calls at once."""

    plane: ControlPlane
    has_tls: bool
    """Whether the bookie's registration said TLS when this was made."""
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CALLS_MAX))


class GrpcControl:
    """Implements `repair.look.bookie_control.BookieControl` over the network."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        settings: AdminSettings | None = None,
        dial: Callable[[bool], Dial] = lambda has_tls: dial_as(has_tls=has_tls),
    ) -> None:
        """`dial`: how a bookie is dialled that has registered with TLS, or without."""
        self._settings = settings or AdminSettings()
        self._dial = dial
        ttl_s = self._settings.address_ttl_s
        self._addresses = AddressBook(
            store, ttl_s=ttl_s, absent_ttl_s=ttl_s, endpoint_ids=(ADMIN_ENDPOINT,)
        )
        self._lines: dict[BookieId, _Line] = {}
        """One connection to each bookie that was asked, until `close`."""

    async def close(self) -> None:
        await self._addresses.close()
        lines, self._lines = list(self._lines.values()), {}
        await asyncio.gather(*(line.plane.close() for line in lines))

    async def list_marks(self, bookie_id: BookieId) -> Marks:
        marks: list[Mark] = []
        after = -1

        def page(plane: ControlPlane, call: Call) -> Awaitable[tuple[list[Mark], bool]]:
            return plane.marks(call, after=after, limit=MARKS_PER_PAGE)

        for _page in range(MARK_PAGES_MAX):
            status, reply, message = await self._call(bookie_id, page)
            if reply is None:
                return Marks(bookie_id, status, tuple(marks), message)
            found, more = reply
            marks.extend(found)
            if not more or not found:
                break
            after = found[-1].ledger_id
        return Marks(bookie_id, Status.OK, tuple(marks))

    async def availability(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Holding]:
        found = await self.answers(bookie_id, ledger_ids)
        return {i: holding_of(bookie_id, i, found.get(i, NO_ANSWER)) for i in ledger_ids}

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        return await _in_parts(ledger_ids, partial(self._answers, bookie_id))

    async def _answers(
        self, bookie_id: BookieId, asked: Sequence[LedgerId]
    ) -> dict[LedgerId, Answer]:
        status, reply, _message = await self._call(
            bookie_id, lambda plane, call: plane.held(call, asked), slow=True
        )
        if status is Status.OVERLOADED and len(asked) > 1:
            # The answer was larger than a message may be: ask for half.
            middle = len(asked) // 2
            first = await self._answers(bookie_id, asked[:middle])
            return first | await self._answers(bookie_id, asked[middle:])
        if reply is None:
            return dict.fromkeys(asked, Answer(int(status)))
        # A ledger left out of the answer was not spoken of: unknown.
        return {one.ledger_id: Answer(*one[1:]) for one in reply}

    async def clear(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Cleared]:
        return await _in_parts(ledger_ids, partial(self._clear, bookie_id))

    async def _clear(
        self, bookie_id: BookieId, asked: Sequence[LedgerId]
    ) -> dict[LedgerId, Cleared]:
        status, reply, message = await self._call(
            bookie_id, lambda plane, call: plane.clear(call, asked), slow=True
        )
        silent = f"no answer from {bookie_id}: {status.name} {message}".rstrip()
        unanswered = {i: Cleared(i, False, "Unreachable", silent) for i in asked}
        return unanswered | {one.ledger_id: one for one in reply or ()}

    async def record_loss(
        self,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        lost: EntrySet,
        *,
        reason: str,
        by_person: bool,
        answered_by: Sequence[BookieId],
    ) -> RequestAnswer:
        status, reply, message = await self._call(
            bookie_id,
            lambda plane, call: plane.record_loss(
                call,
                ledger_id,
                lost.ranges(),
                reason=reason,
                by_person=by_person,
                answered_by=answered_by,
            ),
            slow=True,
        )
        if reply is None:
            return RequestAnswer(False, f"no answer from {bookie_id}: {status.name} {message}")
        return reply

    async def retract_loss(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet, *, by: str, reason: str
    ) -> RetractionAnswer:
        status, reply, message = await self._call(
            bookie_id,
            lambda plane, call: plane.retract_loss(
                call, ledger_id, entries.ranges(), by=by, reason=reason
            ),
            slow=True,
        )
        if reply is None:
            return RetractionAnswer(False, f"no answer from {bookie_id}: {status.name} {message}")
        return reply

    async def recheck(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet
    ) -> EntrySet:
        _status, reply, _message = await self._call(
            bookie_id,
            lambda plane, call: plane.recheck(call, ledger_id, entries.ranges()),
            slow=True,
        )
        return EMPTY if reply is None else EntrySet.from_ranges(reply)

    async def flush(self, bookie_id: BookieId) -> Status:
        status, _reply, _message = await self._call(bookie_id, ControlPlane.flush, slow=True)
        return status

    async def drain(self, bookie_id: BookieId, *, cancel: bool = False) -> RequestAnswer:
        status, _reply, message = await self._call(
            bookie_id, lambda plane, call: plane.drain(call, cancel=cancel), slow=True
        )
        if status is not Status.OK:
            return RequestAnswer(False, message or f"no answer from {bookie_id}: {status.name}")
        return RequestAnswer(True)

    async def is_draining(self, bookie_id: BookieId) -> bool | None:
        _status, health, _message = await self._call(bookie_id, ControlPlane.health)
        return None if health is None else health.draining

    async def _call(
        self,
        bookie_id: BookieId,
        ask: Callable[[ControlPlane, Call], Awaitable[Reply]],
        *,
        slow: bool = False,
    ) -> tuple[Status, Reply | None, str]:
        """(OK, reply, "") or (why not, None, the bookie's words)."""
        deadline_s = self._settings.slow_deadline_s if slow else self._settings.deadline_s
        try:
            address = await self._addresses.find(bookie_id)
            async with self._line(bookie_id, address) as plane:
                # Another process at the address is found out there, or by its answer.
                call = Call(self._addresses.meant(bookie_id), deadline_s)
                return Status.OK, await ask(plane, call), ""
        except CallError as error:
            status = _STATUS_OF_FAILURE.get(error.failure, Status.UNREACHABLE)
            return status, None, error.words
        except UnavailableError as error:
            return Status.UNREACHABLE, None, str(error)

    @asynccontextmanager
    async def _line(self, bookie_id: BookieId, address: Address) -> AsyncIterator[ControlPlane]:
        line = await self._line_to(bookie_id, address)
        while True:
            async with line.calls:
                newest = self._lines.get(bookie_id, line)
                if newest is line:
                    yield line.plane
                    return
            line = newest  # while this call waited for its turn, another one found a new address

    async def _line_to(self, bookie_id: BookieId, address: Address) -> _Line:
        """The connection to this address, in place of one to another address."""
        target = at_port(address.endpoint.host, address.endpoint.port)
        has_tls = address.endpoint.has_tls
        former = self._lines.get(bookie_id)
        if former is not None and (former.plane.target, former.has_tls) == (target, has_tls):
            return former
        plane = ControlPlane(
            target,
            bookie_id=bookie_id,
            dial=self._dial(has_tls),
            heard=lambda identity: self._addresses.saw(bookie_id, identity.epoch),
        )
        # Before the await: another call that finds the new address meanwhile must use this one.
        line = self._lines[bookie_id] = _Line(plane, has_tls)
        if former is not None:
            await former.plane.close()
        return line


async def _in_parts(
    ledger_ids: Sequence[LedgerId],
    ask: Callable[[Sequence[LedgerId]], Awaitable[dict[LedgerId, Reply]]],
) -> dict[LedgerId, Reply]:
    """The answers about all of them, LEDGERS_PER_CALL in a call, one call after the other."""
    found: dict[LedgerId, Reply] = {}
    for start in range(0, len(ledger_ids), LEDGERS_PER_CALL):
        found.update(await ask(ledger_ids[start : start + LEDGERS_PER_CALL]))
    return found
