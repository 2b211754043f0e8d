"""What stores ask of a real ZooKeeper and what comes of it, as one text for a transcript.

Of each scene it has every request in the order in which kazoo got it, the answer, the result or the
sentence of the error, and what is other in the tree since. The connection can be bent from outside:
an answer is lost, a request does not arrive, somebody else comes first.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest
from bookie.metadata.bookkeeper_pb2 import BookieServiceInfoFormat, LedgerMetadataFormat
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import Versioned
from bookie.metadata.zookeeper import ZooKeeperStore
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE

QUICK: Final = ZooKeeperSettings(
    session_timeout_s=4.0, operation_timeout_s=10.0, registration_wait_s=0.05
)
HEADER: Final = b"BookieMetadataFormatVersion\t3\n"
UUID: Final = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
LONG: Final = re.compile(r"\x02([^\x03]*)\x03")
"""Around a value that is not to be shown twice."""
LONG_FROM: Final = 60
SHOWN_MAX: Final = 400
WAIT_S: Final = 20.0
SPINS: Final = 10
PATHS_SHOWN_MAX: Final = 4
SYNC: Final = "sync /"
RIGHTS: Final = ((1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"))

Stat = tuple[str, int, str]
"""Of a znode: its data, its version, what else there is to say of it."""


@dataclass
class Asked:
    """One request: who asks, what for, and what the answer is once there is one."""

    who: str
    words: str
    answer: str = ""
    is_over: bool = False
    """True once its answer has come, or when none ever comes."""

    def __str__(self) -> str:
        return f"{self.who}  {self.words}{f' -> {self.answer}' if self.answer else ''}"


@dataclass
class Bend:
    """What becomes of the next `times` requests that `pattern` finds, behind `skip` of them."""

    pattern: str
    does: Callable[..., None]
    argument: Any = None
    times: int = 1
    skip: int = 0


class ZnodeRecord:
    """Stores on one root of a shared server, and the text of what they do."""

    def __init__(self, address: str, root: str, patch: pytest.MonkeyPatch) -> None:
        self.address, self.root = address, root
        self._send: Callable[[Any, Any, Any], None] = KazooClient._call
        self.hand = KazooClient(address)
        """Somebody else's client, whom nobody records."""
        self._names: dict[int, str] = {id(self.hand): ""}
        self._clients: list[Any] = []
        self._asked: list[Asked] = []
        self._bends: list[Bend] = []
        self._news = asyncio.Event()
        """Set at each answer."""
        self._loop = asyncio.get_running_loop()
        self._tree: dict[str, Stat] = {}
        self._names_given: dict[str, str] = {}
        """Of what differs between runs, and of what is long."""
        self.left_out = "(?!)"
        """Which requests are counted, and not shown, as long as no error answers them."""
        self.has_lists = False
        """Whether access lists are shown of the tree, too."""
        self.folder = ""
        """Where the files of the test are."""
        self.lines: list[str] = []
        self.stores: list[ZooKeeperStore] = []
        patch.setattr(KazooClient, "_call", lambda *call: self._took(*call))

    # Scenes
    async def open(
        self, *, initialise: bool = True, settings: ZooKeeperSettings = QUICK
    ) -> ZooKeeperStore:
        """Another store on this root, in a session of its own; unrecorded up to here."""
        store = await ZooKeeperStore.open(self.address, self.root, settings=settings)
        self.stores.append(store)
        if initialise:
            await store.initialise()
        self._asked.clear()
        self._tree = self.tree()
        return store

    async def do(self, title: str, act: Awaitable[object]) -> Any:
        """One scene; returns its result, or its error."""
        self.lines += ["", f"# {title}"]
        try:
            result: Any = await act
            ends = f"= {_result(result)}"
        except Exception as error:
            result, ends = error, f"! {type(error).__name__}: {error}"
        await self.quiet()
        self.tell(ends)
        return result

    async def quiet(self) -> None:
        """Wait until no task in the background asks for anything any more."""
        known = -1
        while known != len(self._asked):
            known = len(self._asked)
            while not all(one.is_over for one in self._asked):
                self._news.clear()
                await asyncio.wait_for(self._news.wait(), WAIT_S)
            for client in self._clients:
                for kind in ("callback", "completion") if client.handler.running else ():
                    await self._passed(client.handler, kind)
            for _ in range(SPINS):
                await asyncio.sleep(0)

    async def _passed(self, handler: Any, kind: str) -> None:
        """kazoo's thread of this kind has done all that it was given before."""
        passed = asyncio.Event()
        queue = getattr(handler, f"{kind}_queue")
        queue.put(lambda: self._loop.call_soon_threadsafe(passed.set))
        await asyncio.wait_for(passed.wait(), WAIT_S)

    def tell(self, *ends: str) -> None:
        """Write down what was asked since, and what is other in the tree."""
        asked = [self._named(str(one)) for one in _folded(self._asked)]
        kept = [line for line in asked if not re.fullmatch(f"[A-Z]  {self.left_out}", line)]
        self.lines += kept
        if len(kept) < len(asked):
            self.lines.append(f"   and {len(asked) - len(kept)} requests to read")
        self._asked.clear()
        self.lines += [self._named(end) for end in ends]
        now = self.tree()
        for path in sorted({*self._tree, *now}):
            if (was := self._tree.get(path)) != (found := now.get(path)):
                sign = "+" if was is None else "-" if found is None else "~"
                shown = "" if found is None else f" v{found[1]} {found[0]}{found[2]}"
                self.lines.append(self._named(f"{sign} {path}{shown}"))
        self._tree = now

    def say(self, words: str) -> None:
        self.lines += ["", f"## {words}"]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip() + "\n"

    # Somebody else
    def at(self, path: str) -> str:
        """The path of this name below the root; `..` is beside it."""
        return str(Path(self.root).parent / path[3:]) if path[:3] == "../" else f"{self.root}{path}"

    def put(self, path: str, raw: bytes = b"", **options: Any) -> None:
        """Somebody else writes a znode; unrecorded, and in no difference of the tree."""
        self._put(path, raw, **options)
        self._tree = self.tree()

    def _put(self, path: str, raw: bytes, **options: Any) -> None:
        if self.hand.exists(self.at(path)):
            self.hand.set(self.at(path), raw)
        else:
            self.hand.create(self.at(path), raw, makepath=True, **options)

    def remove(self, path: str = "") -> None:
        """Somebody else removes a znode and all below it."""
        gone = self.at(path)
        self._tree = {k: v for k, v in self._tree.items() if not f"{k}/".startswith(f"{gone}/")}
        self._remove(path)

    def _remove(self, path: str) -> None:
        for name in self.hand.get_children(self.at(path)):
            self._remove(f"{path}/{name}")
        self.hand.delete(self.at(path))

    def tree(self) -> dict[str, Stat]:
        """All znodes of the parent of the root; a level of it is asked for at once."""
        found: dict[str, Stat] = {}
        paths = [str(Path(self.root).parent)]
        while paths:
            asked = [(path, self._asked_of(path)) for path in paths]
            paths = []
            for path, (value, names, acl) in asked:
                try:
                    raw, stat = value.get()
                    owner = self._owner(stat.ephemeralOwner)
                    shown = _list(acl.get()[0]) if acl is not None else ""
                    paths += [f"{path}/{name}" for name in names.get()]
                    found[path] = _data(path, raw), stat.version, f"{owner}{shown}"
                except NoNodeError:
                    continue
                except NoAuthError:
                    found[path] = "shown to nobody else", 0, ""
        return found

    def _asked_of(self, path: str) -> tuple[Any, Any, Any]:
        acl = self.hand.get_acls_async(path) if self.has_lists else None
        return self.hand.get_async(path), self.hand.get_children_async(path), acl

    def _owner(self, session_id: int) -> str:
        if not session_id:
            return ""
        known = {c.client_id[0]: self._names[id(c)] for c in self._clients if c.client_id}
        return f", ephemeral of {known.get(session_id, 'another session')}"

    # The connection
    def lose(self, pattern: str, *, times: int = 1, skip: int = 0) -> None:
        """The request is carried out, and its answer is lost."""
        self._bends.append(Bend(pattern, ZnodeRecord._unheard, None, times, skip))

    def drop(self, pattern: str, *, times: int = 1) -> None:
        """The request does not arrive."""
        self.refuse(pattern, ConnectionLoss(), times=times)

    def refuse(self, pattern: str, error: Exception, *, times: int = 1, skip: int = 0) -> None:
        """The answer is this error, and nothing is done."""
        self._bends.append(Bend(pattern, ZnodeRecord._refused, error, times, skip))

    def answer(self, pattern: str, value: object, *, times: int = 1) -> None:
        """The answer is this value."""
        self._bends.append(Bend(pattern, ZnodeRecord._answered, value, times))

    def first(self, pattern: str, act: Callable[[], object], *, skip: int = 0) -> None:
        """Before the request arrives somebody else does this."""
        self._bends.append(Bend(pattern, ZnodeRecord._behind, act, 1, skip))

    def silence(self, pattern: str, *, times: int = 1) -> None:
        """No answer ever comes."""
        self._bends.append(Bend(pattern, ZnodeRecord._unanswered, None, times))

    def _took(self, client: Any, request: Any, result: Any) -> Any:
        """kazoo was given a request, by any of our threads."""
        if client is self.hand:
            return self._send(client, request, result)
        if id(client) not in self._names:
            self._names[id(client)] = "ABCDEFGH"[len(self._clients)]
            self._clients.append(client)
        asked = Asked(self._names[id(client)], _request(request))
        self._asked.append(asked)
        result.rawlink(lambda ended: self._ended(asked, request, ended))
        for bend in self._bends:
            if re.search(bend.pattern, self._placed(asked.words)):
                bend.skip -= 1
                if bend.skip < 0:
                    bend.times -= 1
                    if not bend.times:
                        self._bends.remove(bend)
                    return bend.does(self, bend, client, request, result, asked)
        return self._send(client, request, result)

    def _ended(self, asked: Asked, request: Any, ended: Any) -> None:
        asked.answer = _answer(request, ended.value, ended.exception)
        self._loop.call_soon_threadsafe(self._heard, asked)

    def _heard(self, asked: Asked) -> None:
        asked.is_over = True
        self._news.set()

    def _unanswered(self, *call: Any) -> None:
        call[-1].is_over = True

    def _unheard(self, _bend: Bend, client: Any, request: Any, result: Any, asked: Asked) -> None:
        done = client.handler.async_result()
        done.rawlink(lambda _: result.set_exception(ConnectionLoss()))
        self._send(client, request, done)

    def _refused(self, bend: Bend, client: Any, request: Any, result: Any, asked: Asked) -> None:
        result.set_exception(bend.argument)

    def _answered(self, bend: Bend, client: Any, request: Any, result: Any, asked: Asked) -> None:
        result.set(bend.argument)

    def _behind(self, bend: Bend, client: Any, request: Any, result: Any, asked: Asked) -> None:
        asked.words += " (behind somebody else)"
        bend.argument()
        self._send(client, request, result)

    async def until(self, pattern: str, *, count: int = 1) -> None:
        """Wait until so many requests of this kind are answered, of a task in the background."""
        async with asyncio.timeout(WAIT_S):
            while sum(bool(re.search(pattern, self._placed(str(a)))) for a in self._asked) < count:
                self._news.clear()
                await self._news.wait()
        await self.quiet()

    def _named(self, text: str) -> str:
        """The text without what differs between any two runs: the root's number, the server's
        port, the test's folder, instance ids, moments."""
        text = UUID.sub(lambda found: self._name(found[0], "INSTANCE-"), self._placed(text))
        text = re.sub(r"\b1[6-9]\d{11}\b", "MS", text)
        return LONG.sub(self._once, text)

    def _placed(self, text: str) -> str:
        above = re.escape(str(Path(self.root).parent))
        text = re.sub(rf"{above}\b", "/ABOVE", re.sub(rf"{above}/", "/", text))
        text = text.replace(self.address, "ZK:PORT")
        return text.replace(self.folder, "FOLDER") if self.folder else text

    def _name(self, found: str, kind: str) -> str:
        known = sum(name.startswith(kind) for name in self._names_given.values())
        return self._names_given.setdefault(found, f"{kind}{known + 1}")

    def _once(self, found: re.Match[str]) -> str:
        """A long value is shown once, with a name that stands for it from then on."""
        is_new = found[1] not in self._names_given
        return self._name(found[1], "#") + (f": {found[1]}" if is_new else "")

    async def close(self) -> None:
        self._bends.clear()
        for store in self.stores:
            await store.close()
        self.hand.stop()
        self.hand.close()


@asynccontextmanager
async def recorded(url: str, patch: pytest.MonkeyPatch) -> AsyncIterator[ZnodeRecord]:
    """A record of what becomes of a cluster that does not exist yet."""
    address, _, path = url.removeprefix("zk://").partition("/")
    record = ZnodeRecord(address, f"/{path}", patch)
    record.hand.start()
    yield record
    await record.close()


def _request(request: Any) -> str:
    kind = type(request).__name__
    if kind == "MultiRead":
        paths = request._paths
        more = [f"... {len(paths) - PATHS_SHOWN_MAX} more, the last:", paths[-1]]
        few = len(paths) <= PATHS_SHOWN_MAX
        return f"multi-read {' '.join(paths if few else [*paths[:PATHS_SHOWN_MAX], *more])}"
    if kind == "Transaction":
        return "\n   ".join(["transaction", *map(_request, request.operations)])
    if kind == "Whoami":
        return "whoami"
    words = [f"{kind.lower()} {request.path}"]
    if kind in ("Create", "Create2", "SetData"):
        words.append(_data(request.path, request.data))
    if kind in ("SetData", "Delete"):
        words.append(f"if v{request.version}" if request.version >= 0 else "whatever its version")
    if kind == "SetACL":
        words += [_list(request.acls).strip() or "open", f"if v{request.version}"]
    if kind.startswith("Create"):
        words += [name for bit, name in ((1, "ephemeral"), (2, "sequence")) if request.flags & bit]
        words += [shown] if (shown := _list(request.acl).strip()) else []
    words += ["watched"] if getattr(request, "watcher", None) else []
    return " ".join(words)


def _answer(request: Any, value: Any, error: BaseException | None) -> str:
    if error is not None:
        return type(error).__name__
    kind = type(request).__name__
    if kind == "Transaction":
        wrong = [type(one).__name__ for one in value if isinstance(one, Exception)]
        return ", ".join(wrong) or "done"
    if kind == "Exists":
        return "none" if value is None else "there"
    if kind == "SetData":
        return f"v{value.version}"
    return f"{value}" if kind.startswith("Create") and value != request.path else ""


def _folded(asked: list[Asked]) -> list[Asked]:
    """A sync goes on the line of the read behind it, and like lines become one."""
    folded: list[Asked] = []
    synced: set[str] = set()
    for one in asked:
        if one.words == SYNC and not one.answer:
            synced.add(one.who)
            continue
        words = f"synced {one.words}" if one.who in synced else one.words
        synced.discard(one.who)
        folded.append(Asked(one.who, words, one.answer))
    return folded + [Asked(who, SYNC) for who in synced]


def _data(path: str, raw: bytes) -> str:
    shown = _decoded(path, raw)
    return f"\x02{shown}\x03" if len(shown) > LONG_FROM else shown


def _decoded(path: str, raw: bytes) -> str:
    if raw.startswith(HEADER):
        # Whatever the length before the message is, it is shown.
        size, body = raw[len(HEADER)], raw[len(HEADER) + 1 :]
        if size >= 0x80:
            size, body = size - 0x80 + 0x80 * body[0], body[1:]
        return _message(LedgerMetadataFormat(), body, f"v3 of {size} of {len(body)}") or raw.hex()
    if "/available/" in path and raw and (found := _message(BookieServiceInfoFormat(), raw, "")):
        return found
    if len(raw) > SHOWN_MAX:
        return f"{len(raw)} bytes from {raw[:8].hex()}"
    return repr(raw)[1:]


def _message(message: Message, raw: bytes, title: str) -> str:
    try:
        message.ParseFromString(raw)
    except DecodeError:
        return ""
    shown = text_format.MessageToString(message, as_one_line=True)
    return (
        f"{title}{{{shown}}}" if len(shown) < SHOWN_MAX else f"{title}{{{len(shown)} characters}}"
    )


def _list(acl: list[ACL] | None) -> str:
    if not acl or acl == OPEN_ACL_UNSAFE:
        return ""
    return f" [{', '.join(map(_right, acl))}]"


def _right(one: ACL) -> str:
    letters = (letter for bit, letter in RIGHTS if one.perms & bit)
    return f"{one.id.scheme}:{one.id.id}={''.join(letters)}"


def _result(value: Any) -> str:
    if isinstance(value, Versioned):
        return f"v{value.version} {_result(value.value)}"
    if isinstance(value, Mapping):
        return "\n  ".join(
            [f"{len(value)} of them", *(f"{facts(k)}: {_result(v)}" for k, v in value.items())]
        )
    shown = facts(value)
    return f"\x02{shown}\x03" if len(shown) > LONG_FROM else shown


def facts(value: Any) -> str:
    """A value with all its fields that are not at their default."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = [
            f"{one.name}={facts(found)}"
            for one in fields(value)
            if (found := getattr(value, one.name)) != one.default
            and not (one.default_factory is not MISSING and found == one.default_factory())
        ]
        return f"{type(value).__name__}({', '.join(shown)})"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        # Sorted: a map of protobuf has no order.
        return "{" + ", ".join(sorted(f"{facts(k)}: {facts(v)}" for k, v in value.items())) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(facts, value)) + "]"
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, bytes) and len(value) > SHOWN_MAX:
        return f"{len(value)} bytes"
    is_plain = not repr(value).startswith("<bookie.")
    return repr(value) if is_plain else type(value).__name__


def said(make: Callable[[], Any]) -> str:
    """What is made, or the sentence of the error."""
    try:
        return str(make())
    except Exception as error:
        return f"! {type(error).__name__}: {error}"
