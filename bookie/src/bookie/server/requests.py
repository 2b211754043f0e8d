"""The requests of the native port: decodes a message, calls `operations`, and encodes the answer.

`handle` returns False when there is no room; the connection keeps the message until then.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bookie.errors import FrameError
from bookie.protocol.status import Status
from bookie.server.connections import RunConnection
from bookie.server.operations import Operations
from bookie.server.sessions import Sessions
from bookie.wire.identity import Identity, refusal
from bookie.wire.native import (
    FLAG_FENCE,
    Envelope,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    parse_add,
)

log = logging.getLogger(__name__)

_HELLO: Final = Op.HELLO
_ADD_RUN: Final = Op.ADD_RUN
_OK: Final = Status.OK


class RunService:
    """Answers the native port of one bookie."""

    def __init__(
        self, operations: Operations, sessions: Sessions, *, tls_is_required: bool = False
    ) -> None:
        """`tls_is_required`: clients without TLS are refused."""
        self._operations = operations
        self._sessions = sessions
        self._tls_is_required = tls_is_required
        self._state = operations.state
        self.on_bytes = operations.state.look_at_lease
        self._handlers: dict[Op, Callable[[Envelope, RunConnection], bool]] = {
            Op.ADD_RUN: self._add,
            Op.READ: self._read,
            Op.READ_LAC: self._read_lac,
            Op.WRITE_LAC: self._write_lac,
            Op.WAIT_LAC: self._wait_lac,
            Op.FORCE: self._force,
        }
        """The handler of each kind of request. False = there is no room now: the connection keeps
        the message and passes it in again after `resume`."""

    def opened(self, connection: RunConnection) -> None:
        self._state.traffic.tls_connections["run"] += connection.is_secure
        self._sessions.opened(connection)

    def closed(self, connection: RunConnection) -> None:
        self._state.traffic.tls_connections["run"] -= connection.is_secure
        self._sessions.closed(connection)
        self._operations.forget(connection)

    def left(self, connection: RunConnection, size: int) -> None:
        self._operations.replies_left(connection, size)

    def handle(self, envelope: Envelope, connection: RunConnection) -> bool:
        """Take one message; False when there is no room for it now."""
        if envelope.op is _HELLO or not connection.is_greeted:
            self._greet(envelope, connection)
            return True
        if not self._state.phase.serves:
            self._refuse(connection, envelope, Status.NOT_READY, self._state.phase.name)
            return True
        try:
            return self._handlers[envelope.op](envelope, connection)
        except FrameError as error:
            self._refuse(connection, envelope, Status.BAD_REQUEST, str(error))
            return True

    def _greet(self, envelope: Envelope, connection: RunConnection) -> None:
        """Answer a HELLO, and refuse a client that means another process or does not say which: it
        must not take our answers for another bookie's.
        """
        status, why = Status.BAD_REQUEST, "the first message of a connection must be HELLO"
        if self._tls_is_required and not connection.is_secure:
            status, why = Status.UNAUTHORIZED, "this port takes TLS only, found a client without"
        elif envelope.op is Op.HELLO:
            why = self._judge(envelope.body)
        if why:
            log.warning("refuse a connection: %s", why)
            self._refuse(connection, envelope, status, why)
            connection.close()
            return
        connection.is_greeted = True
        own = self._state.identity.encode()
        connection.reply(Op.HELLO, Status.OK, envelope.request_id, (own,))

    def _judge(self, body: memoryview) -> str:
        """Why this HELLO is not meant for this process; empty when it is."""
        own = self._state.identity
        try:
            meant = Identity.decode(body)
        except FrameError as error:
            return str(error)
        if own.is_outlived_by(meant):
            self._state.hear_epoch(meant.epoch)
        return refusal(meant, own)

    # Requests
    def _add(self, envelope: Envelope, connection: RunConnection) -> bool:
        master_key, frame = parse_add(envelope.body)
        then = partial(_answer_add, connection, envelope.request_id)
        return self._operations.add(connection, frame, master_key=master_key, then=then)

    def _read(self, envelope: Envelope, connection: RunConnection) -> bool:
        request = ReadRequest.decode(envelope.body)
        fence = bool(envelope.code & FLAG_FENCE)
        then = partial(_answer_read, connection, envelope.request_id)
        return self._operations.read(connection, request, fence=fence, then=then)

    def _read_lac(self, envelope: Envelope, connection: RunConnection) -> bool:
        request = LacRequest.decode(envelope.body)
        fence = bool(envelope.code & FLAG_FENCE)
        then = partial(_answer_lac, connection, Op.READ_LAC, envelope.request_id)
        return self._operations.read_lac(connection, request, fence=fence, then=then)

    def _write_lac(self, envelope: Envelope, connection: RunConnection) -> bool:
        then = partial(_answer, connection, Op.WRITE_LAC, envelope.request_id)
        return self._operations.write_lac(connection, LacRequest.decode(envelope.body), then=then)

    def _wait_lac(self, envelope: Envelope, connection: RunConnection) -> bool:
        then = partial(_answer_lac, connection, Op.WAIT_LAC, envelope.request_id)
        self._operations.wait_lac(connection, LacRequest.decode(envelope.body), then=then)
        return True

    def _force(self, envelope: Envelope, connection: RunConnection) -> bool:
        then = partial(_answer, connection, Op.FORCE, envelope.request_id)
        return self._operations.force(connection, LacRequest.decode(envelope.body), then=then)

    def _refuse(
        self, connection: RunConnection, envelope: Envelope, status: Status, reason: str
    ) -> None:
        self._state.traffic.refused[status] += 1
        _answer(connection, envelope.op, envelope.request_id, status, None, reason)


def _answer(
    connection: RunConnection, op: Op, request_id: int, status: Status, _found: Any, reason: str
) -> None:
    """A reply without a body; a refusal carries its reason as text."""
    connection.reply(op, status, request_id, (reason.encode(),) if reason else ())


def _answer_add(
    connection: RunConnection, request_id: int, status: Status, _found: Any, reason: str
) -> None:
    if status is _OK:
        connection.reply_ok(_ADD_RUN, request_id)
    else:
        _answer(connection, _ADD_RUN, request_id, status, None, reason)


def _answer_read(
    connection: RunConnection, request_id: int, status: Status, found: ReadReply | None, reason: str
) -> None:
    if found is None:
        _answer(connection, Op.READ, request_id, status, None, reason)
    else:
        connection.reply(Op.READ, status, request_id, found.encode())


def _answer_lac(
    connection: RunConnection,
    op: Op,
    request_id: int,
    status: Status,
    found: LacReply | None,
    reason: str,
) -> None:
    if found is None:
        _answer(connection, op, request_id, status, None, reason)
    else:
        connection.reply(op, status, request_id, (found.encode(),))
