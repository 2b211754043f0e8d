"""What is written down of a fleet in the simulation: see `fleet_story`.

A line has the time in tenths of a second, who does it, and what. Lines that repeat are counted, and
what the metadata store answers to the same question as the last time is "as before". Random ids are
numbered in the order in which they come, and times of day are those since the beginning.
"""

import asyncio
import re
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import Any, Final

from bookie.errors import FrameError
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.frames.frame import parse_run
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import BookieInfo, Versioned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.storage.durations import Durations
from bookie.testing.metadata import WrappedUnderreplication
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.metadata import SimStore
from bookie.testing.simulation.surroundings import EPOCH_S
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity
from bookie.wire.native import (
    ENVELOPE,
    FLAG_FENCE,
    Envelope,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    next_message,
    parse_add,
)
from google.protobuf.message import Message

BYTES_MAX: Final = 16
"""More bytes than this are shown by their number and checksum."""
_IN_FRONT: Final = ("ledger_id", "ensemble_size", "write_quorum", "ack_quorum")


def shown(value: Any) -> str:
    """Any value of ours, on one line; fields that have their default are left out."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes | bytearray | memoryview):
        return digest(value) if len(value) > BYTES_MAX else repr(bytes(value))
    if isinstance(value, EntrySet):
        return "{" + " ".join(f"{a}..{b}" if b > a else f"{a}" for a, b in value.ranges()) + "}"
    if isinstance(value, Versioned):
        return f"v{value.version} {shown(value.value)}"
    if isinstance(value, Fragment):
        return f"{value.first_entry_id}: {' '.join(value.ensemble)}"
    if isinstance(value, BookieInfo):
        ports = " ".join(f"{one.endpoint_id}={one.host}:{one.port}" for one in value.endpoints)
        return f"({ports} {shown(value.properties)}{' read-only' * value.read_only})"
    if isinstance(value, Durations):
        return "…"  # they are of the machine's own clock
    if isinstance(value, LedgerMetadata):
        quorums = f"{value.ensemble_size}/{value.write_quorum}/{value.ack_quorum}"
        return f"ledger {value.ledger_id} {quorums} {_of_fields(value, but=_IN_FRONT)}"
    if is_dataclass(value) and not isinstance(value, type):
        return _of_fields(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, str | int | float | None):
        return repr(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(shown, value)) + "]"
    return type(value).__name__


def lines_of(document: Mapping[str, Any]) -> Iterator[str]:
    """A result: a line to each field, and to each row of a list. Equal parts of a field stand there
    once.
    """
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{name}:"
            yield from (f"  - {_plain(row)}" for row in value)
        elif isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            groups: dict[str, list[str]] = {}
            for part, inner in value.items():
                groups.setdefault(_plain(inner), []).append(str(part))
            yield f"{name}:"
            yield from (f"  {' '.join(parts)}: {inner}" for inner, parts in groups.items())
        else:
            yield f"{name}: {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={_plain(v)}" for k, v in value.items()) or "{}"
    if isinstance(value, list | tuple):
        return (
            f"[{', '.join(f'({_plain(v)})' if isinstance(v, dict) else _plain(v) for v in value)}]"
        )
    return shown(value)


def _of_fields(value: Any, *, but: Collection[str] = ()) -> str:
    parts = []
    for field in fields(value):
        if field.name in but:
            continue
        one = getattr(value, field.name)
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        if default is MISSING or one != default:
            parts.append(f"{field.name}={shown(one)}")
    name = "" if but else type(value).__name__
    return f"{name}({', '.join(parts)})"


_RANDOM: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b[0-9a-f]{12}\b"
    r"|(?<=creation_token=)\d+"
)


def _numbered(text: str) -> str:
    names: dict[str, str] = {}
    return _RANDOM.sub(lambda found: names.setdefault(found[0], f"<id {len(names) + 1}>"), text)


def _from_the_beginning(text: str) -> str:
    """Milliseconds since 1970, as tenths of a second of the simulation."""
    begin = str(int(EPOCH_S))[:6]
    return re.sub(
        rf"\b{begin}\d{{7}}\b", lambda found: f"<{int(found[0]) / 1000 - EPOCH_S:.1f} s>", text
    )


def digest(data: bytes | bytearray | memoryview) -> str:
    return f"{len(data)} B #{zlib.crc32(data):08x}"


class Record:
    """The lines; and a tap of the simulation's network (`testing.simulation.network.Tap`)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lines: list[tuple[str, str, int]] = []
        """Time, text, how often."""
        self._askers: dict[int, str] = {}
        """Connection -> whose it is."""
        self._found: dict[str, str] = {}
        """What was asked of the metadata store -> the last answer."""
        self.is_quiet = False
        """While it is, nothing is written down."""
        self.shows_messages = True
        """Whether messages of the native wire are written down."""
        self.moment = 0

    def note(self, text: str) -> None:
        if self.is_quiet:
            return
        if self._lines and self._lines[-1][1] == text:
            when, _text, often = self._lines[-1]
            self._lines[-1] = (when, text, often + 1)
        else:
            self._lines.append((f"{self._now():6.1f}", text, 1))

    @property
    def text(self) -> str:
        found, last = [], ""
        for when, text, often in self._lines:
            mark = when if when != last else " " * len(when)
            times = f" (x{often})" if often > 1 else ""
            found.append(f"{mark}  {text}{times}".rstrip())
            last = when
        return _from_the_beginning(_numbered("\n".join(found))) + "\n"

    def answer(self, what: str, found: str) -> None:
        """Of the metadata store: not again if it is what the same question found the last time."""
        before, self._found[what] = self._found.get(what), found
        self.note(f"{what}: as before" if before == found else f"{what}: {found}")

    # Messages
    def sent(self, client: str, connection: int, message: bytes) -> None:
        self._askers[connection] = client.partition(" since ")[0]

    def heard(self, bookie: str, connection: int, message: bytes) -> None:
        asker = self._askers.get(connection, "?")
        if self.shows_messages:
            self.note(f"{asker}/{connection} > {bookie}: {_request(parse_envelope(message))}")

    def said(self, bookie: str, connection: int, message: bytes) -> None:
        asker = self._askers.get(connection, "?")
        if self.shows_messages:
            self.note(f"{bookie} > {asker}/{connection}: {_reply(parse_envelope(message))}")

    def answered(self, client: str, connection: int, message: bytes) -> None:
        """What was said is written down already."""

    def cleared(self, bookie: str, ledger_id: LedgerId) -> None:
        """The answer of the control plane says it."""

    def listed(
        self, bookie: str, ledger_id: LedgerId, held: EntrySet, lost: EntrySet, *, asked: int
    ) -> None:
        """The answer of the control plane says it."""


def _request(found: Envelope) -> str:
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


def _reply(found: Envelope) -> str:
    known = found.code in Status._value2member_map_
    status = Status(found.code).name if known else found.code
    return f"{found.op.name}#{found.request_id} {status} {_answer(found)}".rstrip()


def _answer(found: Envelope) -> str:
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

    def __init__(self, port: Any, target: str, record: Record, caller: str) -> None:
        self._port, self._record = port, record
        self._who, self._caller = target.partition(":")[0], caller

    async def answer(self, method: str, request: bytes, metadata: Any) -> Any:
        message = REQUESTS[method].FromString(request)
        self._record.note(f"{self._caller} > {self._who}: {method} {_line(message)}".rstrip())
        found = await self._port.answer(method, request, metadata)
        if isinstance(found, tuple):
            reply = _line(_REPLIES[method].FromString(found[1]))
        else:
            reply = f"refused, {found.code.name}: {found.details}"
        self._record.note(f"{self._who} > {self._caller}: {method} {reply}".rstrip())
        return found


def _line(message: Message) -> str:
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
        return "{" + _line(value) + "}"
    if isinstance(value, bytes) and name in ("entries", "lost"):
        return shown(EntrySet.decode(value))
    return shown(value)


_SERVICE: Final = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
REQUESTS: Final = {one.name: getattr(pb, one.input_type.name) for one in _SERVICE.methods}
_REPLIES: Final = {one.name: getattr(pb, one.output_type.name) for one in _SERVICE.methods}


class RecordedStore(SimStore):
    """A session with the metadata store, of which all calls are written down."""

    record: Record

    @property
    def underreplication(self) -> Any:
        async def through(name: str, begin: Callable[[], Awaitable[Any]]) -> Any:
            return await self._noted(f"underreplication.{name}", (), {}, begin)

        return WrappedUnderreplication(super().underreplication, read=through, write=through)

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        async def listed() -> list[LedgerId]:
            return [one async for one in super(RecordedStore, self).ledger_ids()]

        for ledger_id in await self._noted("ledger_ids", (), {}, listed):
            yield ledger_id

    async def _noted(
        self,
        name: str,
        args: tuple[Any, ...],
        more: Mapping[str, Any],
        begin: Callable[[], Awaitable[Any]],
    ) -> Any:
        asked = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in more.items())])
        what = f"{self._name} > metadata: {name}({asked})"
        try:
            found = await begin()
        except Exception as error:
            self.record.note(f"{what}: {type(error).__name__}: {error}")
            raise
        self.record.answer(what, shown(found))
        return found


def _recorded(name: str) -> Any:
    inner = getattr(SimStore, name)

    @wraps(inner)
    async def call(self: RecordedStore, *args: Any, **more: Any) -> Any:
        return await self._noted(name, args, more, lambda: inner(self, *args, **more))

    return call


for _name in (
    "initialise", "instance_id", "barrier", "new_ledger_id", "create_ledger", "read_ledger",
    "read_ledgers", "write_ledger", "delete_ledger", "bookies", "register", "unregister",
    "read_cookie", "create_cookie", "write_cookie", "cookies", "read_boot", "write_boot",
    "read_value", "write_value", "delete_value",
):  # fmt: skip
    setattr(RecordedStore, _name, _recorded(_name))


KEY: Final = master_key(b"secret")
"""Of the ledgers of `fleet_story`."""


class Line(asyncio.BufferedProtocol):
    """A native connection by hand: it sends whatever a story gives it, and keeps the answers."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.answers: list[str] = []
        """What nobody waited for."""
        self.ended = ""
        """How it was lost; empty while it is open."""
        self._buffer = bytearray(8 << 20)
        self._end = 0
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._asked = 0

    @classmethod
    async def to(cls, host: str, meant: Identity | None, *, port: int = 3182) -> "Line":
        """Connects, and greets the process that is meant."""
        loop = asyncio.get_running_loop()
        _transport, line = await loop.create_connection(cls, host, port)
        if meant is not None:
            await line.ask(Op.HELLO, meant.encode())
        return line

    def ask(self, op: int, body: bytes, *, flags: int = 0) -> "asyncio.Future[str]":
        """The answer in words; "ended" when the connection is lost before."""
        self._asked += 1
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if self.ended:
            found.set_result(self.ended)
            return found
        self._waiting[self._asked] = found
        self.transport.write(ENVELOPE.pack(len(body), op, flags, 0, self._asked) + body)
        return found

    def add(
        self, ledger_id: int, first: int, count: int = 1, *, key: bytes | None = None, **frame: Any
    ) -> "asyncio.Future[str]":
        """Adds a run (see `frame_of`)."""
        run = frame_of(LedgerId(ledger_id), first, count, **frame)
        return self.ask(Op.ADD_RUN, (KEY if key is None else key) + run)

    def read(
        self, ledger_id: int, first: int, last: int, *, size: int = 1 << 20, fence: bool = False
    ) -> "asyncio.Future[str]":
        request = ReadRequest(LedgerId(ledger_id), EntryId(first), EntryId(last), size, KEY)
        return self.ask(Op.READ, request.encode(), flags=FLAG_FENCE * fence)

    def of_lac(
        self, op: Op, ledger_id: int, lac: int = -1, timeout_ms: int = 50, *, fence: bool = False
    ) -> "asyncio.Future[str]":
        """READ_LAC, WRITE_LAC, WAIT_LAC or FORCE."""
        request = LacRequest(LedgerId(ledger_id), KEY, EntryId(lac), timeout_ms)
        return self.ask(op, request.encode(), flags=FLAG_FENCE * fence)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = f"ended: {error or 'closed by the bookie'}"
        for found in self._waiting.values():
            found.set_result(self.ended)
        self._waiting.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        size, message = next_message(memoryview(bytes(self._buffer[: self._end])), 0, self._end)
        if message is None:
            return
        assert size == self._end, "the network brings whole messages"
        self._end = 0
        words = _words(message)
        waiting = self._waiting.pop(message.request_id, None)
        if waiting is None:
            self.answers.append(words)
        else:
            waiting.set_result(words)


def _words(found: Envelope) -> str:
    """A status with its answer, or with the words of a refusal."""
    status = Status(found.code)
    if status is Status.OK or (found.op is Op.READ_LAC and status is Status.UNKNOWN):
        return f"{status.name} {_answer(found)}".rstrip()
    return f"{status.name} {bytes(found.body).decode()}".rstrip()


def frame_of(
    ledger_id: LedgerId,
    first: int,
    count: int = 1,
    *,
    lac: int = -1,
    flags: int = 0,
    size: int = 5,
    is_wrong: bool = False,
) -> bytes:
    """A run of entries as a writer would send it; `is_wrong`: no digest is that of its entry."""
    codec, entries = EntryCodec(ledger_id, DigestType.CRC32C, b""), []
    for number in range(first, first + count):
        length = size * (number + 1)
        entry = codec.encode(EntryId(number), b"x" * size, lac=EntryId(lac), length=length)
        entries.append(entry[:-1] + b"?" if is_wrong else entry)
    return bytes(build_run(ledger_id, EntryId(first), entries, lac=EntryId(lac), flags=flags))
