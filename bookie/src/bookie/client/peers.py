"""What the client shells ask of bookies: one interface, so that protocol rules never see sockets.

Real: `client.pool.BookiePool`. Fake for tests: `bookie.testing.fleet.FakeFleet`. A bad
bookie is an answer, never an exception: unreachable, timed out, refused come back as a Status that
is neither OK nor a denial (R7).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from bookie.frames.entry import Buffer
from bookie.ids import BookieId
from bookie.protocol.status import Status
from bookie.protocol.writer_effects import Recipient
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest


class Peers(Protocol):
    """The bookies of a cluster, by id. Every call is bounded by the pool's request timeout."""

    def add_run(
        self,
        bookie_id: BookieId,
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Status], None],
    ) -> None:
        """Send one run; `on_reply` is called exactly once, later, in the event loop's thread.

        Adds to one bookie arrive in the order of these calls. No task and no future per run.
        """

    def add_run_to(
        self,
        recipients: Sequence[Recipient],
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Recipient, Status], None],
    ) -> None:
        """Sends a run to several bookies, none of them twice; calls `on_reply` once for each."""

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        """The reply is None unless the status is OK; denials of single entries are in the reply."""

    async def read_lac(
        self, bookie_id: BookieId, request: LacRequest, *, fence: bool = False
    ) -> tuple[Status, LacReply | None]: ...

    async def wait_lac(
        self, bookie_id: BookieId, request: LacRequest
    ) -> tuple[Status, LacReply | None]: ...

    async def write_lac(self, bookie_id: BookieId, request: LacRequest) -> Status: ...

    async def force(self, bookie_id: BookieId, request: LacRequest) -> Status: ...
