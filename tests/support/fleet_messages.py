"""Messages of the native wire and calls of the control plane, in the words of a story."""

import zlib
from collections.abc import Callable
from typing import Any, Final

from bookie.errors import FrameError
from bookie.frames.frame import parse_run
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity
from bookie.wire.native import (
    Envelope,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    parse_add,
)
from fleet_words import digest, shown
from google.protobuf.message import Message


def request_words(found: Envelope) -> str:
    flags = f" flags={found.code}" if found.code else ""
    return f"{found.op.name}#{found.request_id}{flags} {_asked(found)}"


def _asked(found: Envelope) -> str:
    match found.op:
        case Op.ADD_RUN:
            key, run = parse_add(found.body)
            flags = f" flags={run.flags}" if run.flags else ""
            return (
                f"ledger {run.ledger_id} {shown(_ids(run))} lac {run.lac}{flags}"
                f" {digest(run.buffer)} key #{zlib.crc32(key):08x}"
            )
        case Op.READ:
            return shown(ReadRequest.decode(found.body))
        case Op.HELLO:
            return shown(Identity.decode(found.body))
        case _:
            return shown(LacRequest.decode(found.body))


def _ids(run: Any) -> EntrySet:
    return EntrySet.from_runs([(run.first_entry_id, run.count, run.pattern)])


def reply_words(found: Envelope) -> str:
    known = found.code in Status._value2member_map_
    status = Status(found.code).name if known else found.code
    return f"{found.op.name}#{found.request_id} {status} {answer_words(found)}".rstrip()


def answer_words(found: Envelope) -> str:
    body = found.body
    if not body:
        return ""
    if (
        found.op is not Op.HELLO
        and (words := bytes(body)).isascii()
        and words.decode().isprintable()
    ):
        return repr(words.decode())  # why it refuses
    try:
        if found.op is Op.READ:
            reply = ReadReply.decode(body)
            runs = [
                f"{shown(_ids(parse_run(memoryview(run))))} {digest(run)}" for run in reply.runs
            ]
            return (
                f"lac {reply.lac} last {reply.last_entry_id} through {reply.answered_through}"
                f" absent {reply.absent.name} unknown {list(reply.unknown)}"
                f" runs [{', '.join(runs)}]"
            )
        if found.op is Op.HELLO:
            return shown(Identity.decode(body))
        return shown(LacReply.decode(body))
    except FrameError:
        return shown(bytes(body))


class HeardPort:
    """An admin port, of whose calls requests and answers are written down."""

    def __init__(self, port: Any, target: str, note: Callable[[str], None], caller: str) -> None:
        self._port, self._note = port, note
        self._who, self._caller = target.partition(":")[0], caller

    async def answer(self, method: str, request: bytes, metadata: Any) -> Any:
        message = REQUESTS[method].FromString(request)
        self._note(f"{self._caller} > {self._who}: {method} {call_words(message)}".rstrip())
        found = await self._port.answer(method, request, metadata)
        if isinstance(found, tuple):
            reply = call_words(_REPLIES[method].FromString(found[1]))
        else:
            reply = f"refused, {found.code.name}: {found.details}"
        self._note(f"{self._who} > {self._caller}: {method} {reply}".rstrip())
        return found


def call_words(message: Message) -> str:
    """The fields of a message that are not as they are by themselves."""
    parts = []
    for field, value in message.ListFields():
        if field.is_repeated:
            found = f"[{', '.join(_part(field.name, one) for one in value)}]"
        else:
            found = _part(field.name, value)
        parts.append(f"{field.name}={found}")
    return " ".join(parts)


def _part(name: str, value: Any) -> str:
    if isinstance(value, Message):
        return "{" + call_words(value) + "}"
    if isinstance(value, bytes) and name in ("entries", "lost"):
        return shown(EntrySet.decode(value))
    return shown(value)


_SERVICE: Final = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
REQUESTS: Final = {one.name: getattr(pb, one.input_type.name) for one in _SERVICE.methods}
_REPLIES: Final = {one.name: getattr(pb, one.output_type.name) for one in _SERVICE.methods}
