"""The interface through which the client shells call bookies, so that protocol rules never see
sockets.

`client.pool.BookiePool` is the real one, `bookie.testing.fleet.FakeFleet` the fake for tests.
Failures of a bookie are answers, never exceptions: when it is unreachable, refuses or times out,
the call returns a Status that is neither OK nor a denial (R7).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from bookie.frames.entry import Buffer
from bookie.ids import BookieId
from bookie.protocol.status import Status
from bookie.protocol.writer_effects import Recipient
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest


class Peers(Protocol):
    """The bookies of a cluster, by id. Every call ends within the pool's request timeout."""

    def add_run(
        self,
        bookie_id: BookieId,
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Status], None],
    ) -> None:
        """Send one run; calls `on_reply` exactly once, later, in the event loop's thread.

        Adds to one bookie arrive in the order of these calls. It makes no task and no future per
        run.
        """

    def add_run_to(
        self,
        recipients: Sequence[Recipient],
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Recipient, Status], None],
    ) -> None:
        """Send a run to several bookies, each at most once; calls `on_reply` once for each."""

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        """Read entries. The reply is None unless the status is OK; denials of single entries are in
        the reply.
        """

    async def read_lac(
        self, bookie_id: BookieId, request: LacRequest, *, fence: bool = False
    ) -> tuple[Status, LacReply | None]: ...

    async def wait_lac(
        self, bookie_id: BookieId, request: LacRequest
    ) -> tuple[Status, LacReply | None]: ...

    async def write_lac(self, bookie_id: BookieId, request: LacRequest) -> Status: ...

    async def force(self, bookie_id: BookieId, request: LacRequest) -> Status: ...
