"""A fleet of in-memory bookies behind the client's `Peers` interface, deterministic.

No timers and no sockets: every reply comes by `loop.call_soon`, unless a test holds requests or
replies and releases them by hand, in any order. A request to a bookie that is down, unknown or cut
off is answered UNREACHABLE, as a real pool does after its timeout.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from bookie.errors import FrameError
from bookie.frames.entry import Buffer
from bookie.frames.frame import parse_run
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import BookieInfo, Endpoint, MetadataStore
from bookie.protocol.status import Status
from bookie.protocol.writer_effects import Recipient
from bookie.testing.fake_bookie import FakeBookie
from bookie.wire.native import LacReply, LacRequest, Op, ReadReply, ReadRequest


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One request on its way to a bookie. `first`..`last`: entries of an add or a read."""

    op: Op
    bookie_id: BookieId
    ledger_id: LedgerId
    first: EntryId = NO_ENTRY
    last: EntryId = NO_ENTRY
    fence: bool = False
    recovery: bool = False


CallFilter = Callable[[Call], bool]
Answer = TypeVar("Answer")


def any_call(_call: Call) -> bool:
    return True


@dataclass(slots=True)
class HeldMessage:
    """A held request (nothing has happened yet) or a held reply (the bookie has acted)."""

    call: Call
    is_reply: bool
    _deliver: Callable[[], None] = field(repr=False)
    _give_up: Callable[[], None] = field(repr=False)

    def release(self) -> None:
        """Let it go on now."""
        self._deliver()

    def drop(self) -> None:
        """Lose it: the client sees UNREACHABLE."""
        self._give_up()


@dataclass(slots=True)
class Line:
    """The way to and from one bookie, as a test has set it up."""

    hold_requests: CallFilter | None = None
    hold_replies: CallFilter | None = None
    lose_requests: CallFilter | None = None
    lose_replies: CallFilter | None = None


class FakeFleet:
    """Implements `client.peers.Peers`; `fleet[id]` is the bookie itself.

    `calls` records every request that was sent, in order; `parked` what is held now.
    """

    def __init__(self, bookie_ids: int | Iterable[str]) -> None:
        names = range(bookie_ids) if isinstance(bookie_ids, int) else bookie_ids
        ids = [BookieId(f"bookie-{name}" if isinstance(name, int) else name) for name in names]
        self.bookies = {bookie_id: FakeBookie(bookie_id) for bookie_id in ids}
        self.lines = {bookie_id: Line() for bookie_id in ids}
        self.calls: list[Call] = []
        self.parked: list[HeldMessage] = []
        self._waiting: list[tuple[FakeBookie, LacRequest, Callable[[Any], None]]] = []

    def __getitem__(self, bookie_id: str | int) -> FakeBookie:
        return self.bookies[self._id(bookie_id)]

    @property
    def ids(self) -> list[BookieId]:
        return list(self.bookies)

    def _id(self, bookie_id: str | int) -> BookieId:
        return self.ids[bookie_id] if isinstance(bookie_id, int) else BookieId(bookie_id)

    async def register(self, store: MetadataStore) -> None:
        """Announce every bookie in the metadata store, so that placement finds them."""
        for bookie_id in self.bookies:
            endpoints = (Endpoint("bookie-run", "127.0.0.1", 1, "bookie-run"),)
            await store.register(BookieInfo(bookie_id, endpoints))

    # Controls of the lines
    def hold(self, bookie_id: str | int, *, only: CallFilter = any_call) -> None:
        """Hold requests to this bookie before it sees them; see `parked` and `release`."""
        self.lines[self._id(bookie_id)].hold_requests = only

    def hold_replies(self, bookie_id: str | int, *, only: CallFilter = any_call) -> None:
        """Let the bookie act, hold what it answers."""
        self.lines[self._id(bookie_id)].hold_replies = only

    def lose_requests(self, bookie_id: str | int, *, only: CallFilter = any_call) -> None:
        """Requests never arrive; the client sees UNREACHABLE."""
        self.lines[self._id(bookie_id)].lose_requests = only

    def lose_replies(self, bookie_id: str | int, *, only: CallFilter = any_call) -> None:
        """The bookie acts, its answer never arrives; the client sees UNREACHABLE."""
        self.lines[self._id(bookie_id)].lose_replies = only

    def heal(self, bookie_id: str | int) -> None:
        """A clean line again; what is parked stays parked."""
        self.lines[self._id(bookie_id)] = Line()

    def held(self, bookie_id: str | int, *, only: CallFilter = any_call) -> list[HeldMessage]:
        """What is parked for this bookie, oldest first."""
        wanted = self._id(bookie_id)
        return [p for p in self.parked if p.call.bookie_id == wanted and only(p.call)]

    def release(self, bookie_id: str | int, *, only: CallFilter = any_call) -> int:
        """Release everything parked for this bookie, oldest first; how many there were."""
        waiting = self.held(bookie_id, only=only)
        for parked in waiting:
            parked.release()
        return len(waiting)

    def expire_waits(self) -> None:
        """Let every long poll time out: it answers what the bookie knows."""
        waiting, self._waiting = self._waiting, []
        for bookie, request, reply in waiting:
            reply(bookie.read_lac(request, fence=False))

    async def settle(self) -> None:
        """Run the event loop until nothing but held requests is left to do."""
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)

    # Peers
    def add_run(
        self,
        bookie_id: BookieId,
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Status], None],
    ) -> None:
        call = _add_call(bookie_id, frame)
        self._send(call, lambda b: b.add_run(master_key, frame), Status.UNREACHABLE, on_reply)

    def add_run_to(
        self,
        recipients: Sequence[Recipient],
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Recipient, Status], None],
    ) -> None:
        for recipient in recipients:
            report = partial(on_reply, recipient)
            self.add_run(recipient.bookie_id, master_key=master_key, frame=frame, on_reply=report)

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        call = Call(Op.READ, bookie_id, request.ledger_id, request.first, request.last, fence=fence)
        return await self._ask(call, lambda b: b.read(request, fence=fence), NO_ANSWER)

    async def read_lac(
        self, bookie_id: BookieId, request: LacRequest, *, fence: bool = False
    ) -> tuple[Status, LacReply | None]:
        call = Call(Op.READ_LAC, bookie_id, request.ledger_id, fence=fence)
        return await self._ask(call, lambda b: b.read_lac(request, fence=fence), NO_ANSWER)

    async def wait_lac(
        self, bookie_id: BookieId, request: LacRequest
    ) -> tuple[Status, LacReply | None]:
        call = Call(Op.WAIT_LAC, bookie_id, request.ledger_id)
        status, reply = await self._ask(call, lambda b: b.read_lac(request, fence=False), NO_ANSWER)
        if reply is None or reply.lac > request.lac:
            return status, reply
        future: asyncio.Future[tuple[Status, LacReply | None]]
        future = asyncio.get_running_loop().create_future()
        waiter = (self.bookies[bookie_id], request, _setter(future))
        self._waiting.append(waiter)
        try:
            return await future
        finally:
            self._waiting = [other for other in self._waiting if other is not waiter]

    async def write_lac(self, bookie_id: BookieId, request: LacRequest) -> Status:
        call = Call(Op.WRITE_LAC, bookie_id, request.ledger_id)
        return await self._ask(call, lambda b: b.write_lac(request), Status.UNREACHABLE)

    async def force(self, bookie_id: BookieId, request: LacRequest) -> Status:
        call = Call(Op.FORCE, bookie_id, request.ledger_id)
        return await self._ask(call, lambda b: b.force(request), Status.UNREACHABLE)

    # The way there and back
    async def _ask(
        self, call: Call, act: Callable[[FakeBookie], Answer], failure: Answer
    ) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._send(call, act, failure, _setter(future))
        return await future

    def _send(
        self,
        call: Call,
        act: Callable[[FakeBookie], Any],
        failure: Any,
        reply: Callable[[Any], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.calls.append(call)
        line = self.lines.get(call.bookie_id)

        def give_up() -> None:
            loop.call_soon(reply, failure)

        def arrive() -> None:
            bookie = self.bookies.get(call.bookie_id)
            if bookie is None or bookie.down:
                give_up()
                return
            answer = act(bookie)
            self._wake_waiters()
            if line is not None and line.lose_replies and line.lose_replies(call):
                give_up()
            elif line is not None and line.hold_replies and line.hold_replies(call):
                self._park(call, lambda: reply(answer), give_up, is_reply=True)
            else:
                loop.call_soon(reply, answer)

        if line is not None and line.lose_requests and line.lose_requests(call):
            give_up()
        elif line is not None and line.hold_requests and line.hold_requests(call):
            self._park(call, arrive, give_up, is_reply=False)
        else:
            loop.call_soon(arrive)

    def _park(
        self,
        call: Call,
        deliver: Callable[[], None],
        give_up: Callable[[], None],
        *,
        is_reply: bool,
    ) -> None:
        def leave(then: Callable[[], None]) -> None:
            self.parked = [other for other in self.parked if other is not parked]
            then()

        parked = HeldMessage(call, is_reply, lambda: leave(deliver), lambda: leave(give_up))
        self.parked.append(parked)

    def _wake_waiters(self) -> None:
        for waiter in list(self._waiting):
            bookie, request, reply = waiter
            status, found = bookie.read_lac(request, fence=False)
            if status is Status.OK and found is not None and found.lac > request.lac:
                self._waiting.remove(waiter)
                reply((status, found))


SETTLE_TURNS = 400
"""Turns of the event loop that `settle` gives: far more than any exchange of messages needs."""

NO_ANSWER: tuple[Status, Any] = (Status.UNREACHABLE, None)


def _setter(future: "asyncio.Future[Any]") -> Callable[[Any], None]:
    def set_unless_cancelled(value: Any) -> None:
        if not future.done():
            future.set_result(value)

    return set_unless_cancelled


def _add_call(bookie_id: BookieId, frame: Buffer) -> Call:
    try:
        run = parse_run(frame)
    except FrameError:
        return Call(Op.ADD_RUN, bookie_id, LedgerId(-1))
    return Call(
        Op.ADD_RUN,
        bookie_id,
        run.ledger_id,
        run.first_entry_id,
        run.last_entry_id,
        recovery=run.is_recovery,
    )
