"""What reads bytes or trees that others wrote: how, and what it may say to those that are hostile.

A reader returns a value or raises one of its `refusals`; never anything else. With `write`, what it
accepts is written and read again as the same value.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bookie.boot.marker import Marker, read_marker
from bookie.boot.stamps import STAMP_NAME, Stamp, read_stamp, write_stamp
from bookie.client.log_list import LedgerList
from bookie.errors import BookieError, FrameError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.boots import decode_boot, encode_boot
from bookie.metadata.codec import decode_ledger, encode_ledger
from bookie.metadata.cookie import decode_cookie, encode_cookie
from bookie.metadata.login import read_login
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.service_info import decode_info, encode_info
from bookie.protocol.availability import EntrySet
from bookie.repair.jobs.resume import Checkpoint
from bookie.repair.judge.adherence import read_racks
from bookie.repair.reports.finding_history import History, _unpacked
from bookie.server.advertised import addresses_of, endpoints_of
from bookie.server.runtime_file import RuntimeFile
from bookie.server.settings import load_settings
from bookie.server.users_file import UsersFile
from bookie.storage.disk import RealDisk
from bookie.storage.facts import DirectoryFacts
from bookie.storage.records import Boundary, LedgerRecord
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Principal
from bookie.wire.identity import Identity
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest, next_message, parse_add
from bookie.wire.stock.connection import StockConnection
from bookie.wire.stock.digest_md5 import Denied, Exchange, Service, user_key
from bookie.wire.stock.opening import Opening
from bookie.wire.stock.tickets import TICKET_BYTES_MAX
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import load_cluster, load_task, parse
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import JobKind
from bookie_operator.platform.folders import read_json
from bookie_operator.reports import report_of

FILES: Final = ("tls.crt", "tls.key", "ca.crt")
CORPUS: Final = Path(__file__).with_name("corpus")
DISK: Final = RealDisk()
SETTINGS_VARIABLE: Final = "BOOKIE_LIMITS__CONNECTIONS"
NONCE: Final = b"0123456789abcdef"
START_TLS: Final = b"\x00\x00\x00\x0b\n\x06\x08\x03\x10\t\x18\x01\xd2\x06\x00"
"""A stock client's, on version 3."""
USERS: Final = {"anna": user_key("anna", "bookkeeper", "secret")}


@dataclass(frozen=True, slots=True)
class Target:
    """One reader."""

    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...] = (BookieError,)
    """What it may raise."""
    write: Callable[[Any], bytes] | None = None
    is_json: bool = False
    """Its bytes are JSON: values in it are changed, too."""


def in_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """A reader of files, given bytes."""

    def read_bytes(raw: bytes) -> Any:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(raw)
            return read(path)

    return read_bytes


def stamp_bytes(stamp: Stamp) -> bytes:
    with TemporaryDirectory() as folder:
        write_stamp(DISK, Path(folder), stamp)
        return (Path(folder) / STAMP_NAME).read_bytes()


def read_settings(raw: bytes) -> Any:
    return in_file("bookie.yaml", lambda path: load_settings(path, {}))(raw)


def read_variable(raw: bytes) -> Any:
    """A value of the environment over good settings."""
    good = CORPUS / "settings" / "good"
    return load_settings(good, {SETTINGS_VARIABLE: raw.decode("utf-8", "surrogateescape")})


def read_credentials(raw: bytes) -> Any:
    """The three files of a folder, one behind another: `tls.crt`, `tls.key`, `ca.crt`."""
    parts = [*raw.split(b"\n====\n"), b"", b""]
    with TemporaryDirectory() as folder:
        for name, part in zip(FILES, parts, strict=False):
            (Path(folder) / name).write_bytes(part)
        return CredentialsFolder(Path(folder)).principal


def read_checkpoint(raw: bytes) -> Any:
    """Whoever goes on from it gets through, and writes one that reads the same."""
    wanted = [LedgerId(n) for n in range(1, 2000)]
    checkpoint = Checkpoint(
        MemoryStore(MemoryCluster()), "demo", digests=False, say=len, clock=lambda: 1e9
    )
    checkpoint._wanted = wanted
    checkpoint._unread.extend(checkpoint._read(raw))
    groups = [checkpoint._within(block) for block in checkpoint._unread]
    for group in groups:
        checkpoint.same(group, dict.fromkeys(wanted, 1))
    checkpoint.go_on(set(wanted))
    return checkpoint.encoded()


def read_native(raw: bytes) -> Any:
    """A message and, by each operation's reader, its body."""
    found = []
    view, at = memoryview(raw), 0
    while True:
        size, envelope = next_message(view, at, len(view))
        if envelope is None:
            return found
        at += size
        for read in (Identity.decode, parse_add, *BODIES):
            try:
                found.append(read(envelope.body))
            except BookieError:
                continue


BODIES: Final[tuple[Any, ...]] = (
    ReadRequest.decode, ReadReply.decode, LacRequest.decode, LacReply.decode,
)  # fmt: skip


def read_stock(raw: bytes) -> Any:
    spoken, view, found = StockConnection(), memoryview(raw), []
    while True:
        _wire, requests, consumed = spoken.parse_all(view)
        found += requests
        view = view[consumed:]
        if not consumed:
            return found


def read_opening(raw: bytes) -> Any:
    """As first words, and behind the answer to START_TLS; also where tickets are a way in."""
    for token_bytes_max in (0, TICKET_BYTES_MAX):
        opening, rest = Opening(token_bytes_max), raw
        assert opening.step(memoryview(START_TLS)).asked
        with suppress(FrameError):
            while rest and (word := opening.step(memoryview(rest))).bytes_taken:
                assert not word.asked and not word.is_over, "START_TLS is asked once"
                rest = rest[word.bytes_taken :]
    Opening(TICKET_BYTES_MAX).step(memoryview(raw))
    return Opening().step(memoryview(raw))


def read_token(raw: bytes) -> Any:
    """The second word of a login: garbage is a denial, never an error."""
    exchange = Exchange(Service("bookkeeper", "bookkeeper/bookkeeper"), NONCE)
    exchange.step(b"", USERS)
    said = exchange.step(raw, USERS)
    assert isinstance(exchange.step(raw, USERS), Denied), "nothing is accepted twice"
    return said


def read_metadata_of_call(raw: bytes) -> Any:
    words = raw.decode("latin-1").split("\n")
    return Identity.from_metadata(zip(words[::2], words[1::2], strict=False))


def read_users(raw: bytes) -> Any:
    return in_file("users", lambda path: UsersFile(path, "bookkeeper").keys())(raw)


def read_runtime(raw: bytes) -> Any:
    return in_file("runtime.json", lambda p: RuntimeFile(p, "bookie-0", 1)._is_taken())(raw)


def read_facts(raw: bytes) -> Any:
    names = ("position", "fence", "unchecked", "suspicions")
    return DirectoryFacts.decode(dict(zip(names, raw.split(b"\n"), strict=False)))


def read_result(raw: bytes) -> Any:
    """As the operator does with what a job left, for every kind of job."""
    tree = in_file("result.json", read_json)(raw) or {}
    return [report_of(kind, tree) for kind in JobKind]


def json_manifest(model: type[Any]) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        return parse(model, json.loads(raw), source="the test")

    return read


def manifest_bytes(found: Any) -> bytes:
    return json.dumps(found.model_dump(mode="json", by_alias=True)).encode()


NOT_JSON: Final = (BookieError, ValueError, RecursionError)
"""Of what is no JSON: the API server lets none of it through."""
TARGETS: Final[Mapping[str, Target]] = {
    "stamp": Target(
        in_file(STAMP_NAME, lambda path: read_stamp(DISK, path.parent)),
        write=stamp_bytes,
        is_json=True,
    ),
    "marker": Target(
        Marker.decode, (ValueError, KeyError, TypeError), write=Marker.encode, is_json=True
    ),
    "marker-file": Target(in_file("DIRTY", lambda path: read_marker(DISK, path.parent))),
    "cookie": Target(decode_cookie, write=encode_cookie),
    "boot": Target(
        lambda raw: replace(decode_boot(raw, bookie_id=BookieId("b")), is_bare=False),
        write=encode_boot,
        is_json=True,
    ),
    "registration": Target(
        lambda raw: decode_info(raw, bookie_id=BookieId("bookie-0"), read_only=False),
        write=encode_info,
    ),
    "registration-id": Target(
        lambda raw: decode_info(b"", bookie_id=BookieId(raw.decode("latin-1")), read_only=False)
    ),
    "ledger": Target(
        lambda raw: decode_ledger(raw, ledger_id=LedgerId(7)), write=encode_ledger
    ),
    "availability": Target(EntrySet.decode, write=EntrySet.encode),
    "checkpoint": Target(read_checkpoint, write=bytes),
    "history": Target(History.decode, write=History.encode),
    "history-value": Target(_unpacked),
    "log-list": Target(LedgerList.decode, write=LedgerList.encode, is_json=True),
    "ledger-record": Target(LedgerRecord.decode, write=LedgerRecord.encode),
    "boundary": Target(Boundary.decode, write=Boundary.encode),
    "facts": Target(read_facts),
    "runtime-file": Target(read_runtime, is_json=True),
    "users": Target(read_users),
    "zookeeper-login": Target(in_file("credentials", read_login)),
    "advertised": Target(
        lambda raw: endpoints_of(addresses_of(raw.decode("utf-8", "replace"))), (ValueError,)
    ),
    "credentials": Target(read_credentials),
    "principal": Target(
        lambda raw: Principal.from_uri(raw.decode("latin-1")),
        write=lambda found: found.uri.encode() if found else b"",
    ),
    "settings": Target(read_settings),
    "settings-variable": Target(read_variable),
    "racks": Target(in_file("racks.yaml", read_racks)),
    "cluster-yaml": Target(in_file("cluster.yaml", load_cluster)),
    "task-yaml": Target(in_file("task.yaml", load_task)),
    "cluster": Target(
        json_manifest(BookieCluster), NOT_JSON, write=manifest_bytes, is_json=True
    ),
    "task": Target(json_manifest(BookieTask), NOT_JSON, write=manifest_bytes, is_json=True),
    "result": Target(read_result, is_json=True),
    "hello": Target(Identity.decode, write=Identity.encode, is_json=True),
    "call-metadata": Target(read_metadata_of_call),
    "native": Target(read_native),
    "stock": Target(read_stock),
    "opening": Target(read_opening),
    "token": Target(read_token),
}  # fmt: skip


def hold(target: Target, raw: bytes) -> bool:
    """Whether it was accepted; AssertionError or any other error: the reader is at fault."""
    try:
        value = target.read(raw)
    except target.refusals:
        return False
    if target.write is not None and value is not None:
        assert target.read(target.write(value)) == value, "what was accepted reads otherwise now"
    return True


def corpus_of(name: str) -> dict[str, bytes]:
    """The committed corpus of a target: what each file is called, and what is in it."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / name).iterdir())}


def seeds_of(name: str) -> list[bytes]:
    """Of the corpus, what others are made of: each bomb takes its time, and the test of the corpus
    has it."""
    return [raw for title, raw in corpus_of(name).items() if title != "bomb"]
