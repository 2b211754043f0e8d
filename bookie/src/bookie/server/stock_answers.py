"""Whom a stock request came from, on which version of the wire, and how it is refused."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from bookie.frames.entry import Buffer
from bookie.protocol.status import Status
from bookie.server.askers import Asker
from bookie.wire.stock.messages import (
    Add,
    Auth,
    BatchRead,
    BookieInfo,
    Force,
    ListEntries,
    Outcome,
    Read,
    ReadLac,
    WriteLac,
    outcome_of,
)
from bookie.wire.stock.wire import Wire

Answerable = Add | Read | BatchRead | ReadLac | WriteLac | Force | ListEntries | BookieInfo

NO_KEY: Final = b""
"""Of requests that fence and write nothing: no key is looked at."""

Work = Callable[[], bool]
"""One piece of work; False: no room for it now, nothing happened."""


class Client(Asker, Protocol):
    """A connection of the stock port."""

    @property
    def is_barred(self) -> bool:
        """It must be under TLS or authenticated, and is not: nothing is done for it."""

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Queue an answer; it leaves with the others of this loop turn."""

    def authenticate(self, wire: Wire, request: Auth) -> bool:
        """Answer an AUTH; close where it is refused. False: it is not judged yet, see `Work`."""

    def do(self, work: Work) -> None:
        """Now, or when all that waits before it is done."""


class Origin(NamedTuple):
    """Where a request came from. The wire is that of the request: a connection may change it."""

    client: Client
    wire: Wire

    def refuse(self, request: Answerable, status: Status) -> None:
        """Answer with nothing but the status, which is not OK."""
        outcome = outcome_of(status)
        assert outcome is not Outcome.OK
        self.client.send(_answer(self.wire, request, outcome))


def _answer(wire: Wire, request: Answerable, outcome: Outcome) -> Sequence[Buffer]:
    """The answer of each request that has nothing but an outcome."""
    match request:
        case Add():
            return [wire.answer_add(request, outcome)]
        case Read():
            return wire.answer_read(request, outcome)
        case BatchRead():
            return wire.answer_batch_read(request, outcome)
        case ReadLac():
            return wire.answer_read_lac(request, outcome)
        case WriteLac():
            return [wire.answer_write_lac(request, outcome)]
        case Force():
            return [wire.answer_force(request, outcome)]
        case ListEntries():
            return wire.answer_list_entries(request, outcome)
        case BookieInfo():
            return [wire.answer_bookie_info(request, outcome)]
