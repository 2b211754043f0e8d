"""The origin of a stock request: its client and version of the wire; and how to
refuse the request.
"""

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
"""The key of requests that neither fence nor write: it is not checked."""

Work = Callable[[], bool]
"""One piece of work; returns False when there is no room for it now and nothing happened."""


class Client(Asker, Protocol):
    """A connection of the stock port."""

    @property
    def is_barred(self) -> bool:
        """True when the client must be under TLS or authenticated and is not: then its requests are
        refused.
        """

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Queue an answer; it leaves with the others of this turn of the loop."""

    def authenticate(self, wire: Wire, request: Auth) -> bool:
        """Answer an AUTH, and close if it is refused. False when it is not judged
        yet; see `Work`.
        """

    def do(self, work: Work) -> None:
        """Do the work now, or after all work that waits before it."""


class Origin(NamedTuple):
    """Where a request came from. `wire` is the version that the request used: a connection may
    change it.
    """

    client: Client
    wire: Wire

    def refuse(self, request: Answerable, status: Status) -> None:
        """Answer a request with a status that is not OK."""
        outcome = outcome_of(status)
        assert outcome is not Outcome.OK
        self.client.send(_answer(self.wire, request, outcome))


def _answer(wire: Wire, request: Answerable, outcome: Outcome) -> Sequence[Buffer]:
    """Encode an answer that has only an outcome."""
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
