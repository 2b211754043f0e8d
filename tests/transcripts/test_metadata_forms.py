"""The forms of all that the metadata layer writes and reads, as tables; no ZooKeeper is needed."""

import json
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.access import OPEN, Access, Place, place_of
from bookie.metadata.boots import decode_boot, encode_boot
from bookie.metadata.codec import decode_ledger, encode_ledger
from bookie.metadata.connection_trouble import trouble_of
from bookie.metadata.cookie import decode_cookie, encode_cookie
from bookie.metadata.layout import (
    Paths,
    is_folder,
    is_mark_folder,
    ledger_id_of,
    ledger_path,
    mark_folder,
    mark_node,
    marked_ledger,
    value_kind,
    value_node,
)
from bookie.metadata.multi_read import MultiRead
from bookie.metadata.service_info import decode_info, encode_info
from bookie.metadata.store import BookieInfo, Cookie, Endpoint, StoredBoot, UnderreplicationMark
from bookie.metadata.underreplication import encode_mark
from bookie.metadata.whoami import Whoami
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from kazoo.exceptions import ConnectionDropped
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from znode_record import facts, said

A, B, C = (BookieId(name) for name in ("a:3181", "b:3181", "c"))
ONE = (Fragment(EntryId(0), (A,)),)
THREE = (Fragment(EntryId(0), (A, B)), Fragment(EntryId(7), (A, C)), Fragment(EntryId(90), (C, B)))


Row = tuple[str, Callable[[], Any]]
Item = TypeVar("Item")


def rows_of(make: Callable[[Item], Any], items: Mapping[str, Item]) -> list[Row]:
    """A row for each item."""
    return [(name, partial(make, item)) for name, item in items.items()]


def by_name(items: Iterable[Item]) -> dict[str, Item]:
    """Each item under the text that it is."""
    return {one if isinstance(one, str) else repr(one)[:120]: one for one in items}


def table(rows: Iterable[Row]) -> str:
    """A row for each: what it is, and what is made of it, or the sentence of its error."""
    return "".join(f"{name}\n    {said(make)}\n" for name, make in rows)


def ledger(
    fragments: tuple[Fragment, ...] = ONE, size: int = 1, write: int = 1, ack: int = 1, **more: Any
) -> LedgerMetadata:
    return LedgerMetadata(LedgerId(5), size, write, ack, fragments, **more)


FULL: dict[str, Any] = {
    "digest_type": DigestType.DUMMY, "password": b"\x00\xffp", "ctime_ms": 1234,
    "creation_token": 99, "custom": {"b": b"\x00", "a": b"text", "": b""},
}  # fmt: skip
CLOSED: dict[str, Any] = {"state": LedgerState.CLOSED, "last_entry_id": EntryId(3), "length": 300}
OLD: dict[str, Any] = {"password_is_stored": False, "digest_type": DigestType.CRC32}
LEDGERS = {
    "least": ledger(),
    **{f"digest {one.name}": ledger(digest_type=one) for one in DigestType},
    **{f"state {one.name}": ledger(state=one) for one in LedgerState},
    "closed": ledger(**CLOSED),
    "open, but with an end": ledger(**(CLOSED | {"state": LedgerState.OPEN})),
    "closed and empty": ledger(state=LedgerState.CLOSED),
    "full": ledger(THREE, 2, 2, 1, **FULL, **CLOSED),
    "full, in recovery": ledger(THREE, 2, 2, 2, **FULL, state=LedgerState.IN_RECOVERY),
    "127 bytes and more": ledger(custom={"k": bytes(90)}),
    "large numbers": ledger(creation_token=2**63 - 1, ctime_ms=2**62),
    "old": ledger(**OLD),
    "old, three fragments": ledger(THREE, 2, 2, 2, **OLD),
    "old and closed": ledger(**OLD, **CLOSED),
    "old and open, but with an end": ledger(**OLD, **(CLOSED | {"state": LedgerState.OPEN})),
    "old, in recovery": ledger(**OLD, state=LedgerState.IN_RECOVERY),
    "old, fewer acks": ledger((THREE[0],), 2, 2, 1, **OLD),
    "old, a token": ledger(**OLD, creation_token=4),
    "old, of the application": ledger(**OLD, custom={"a": b"b"}),
    "old, a bookie CLOSED": ledger((Fragment(EntryId(0), (BookieId("CLOSED"),)),), **OLD),
}


def test_ledgers_as_they_are_written(snapshot: SnapshotAssertion) -> None:
    def shown(one: LedgerMetadata) -> str:
        raw = encode_ledger(one)
        back = decode_ledger(raw, ledger_id=LedgerId(5), stored_at_ms=77)
        _, _, body = raw.partition(b"\n")
        form = raw[:29].decode() + (body.hex() if raw[28:29] == b"3" else repr(body)[1:])
        return f"{form}\n    {facts(back)}\n    {'the same' if back == one else 'other'}"

    assert snapshot(extension_class=Words) == table(rows_of(shown, LEDGERS))


HEAD = b"BookieMetadataFormatVersion\t"
TEXT = b'quorumSize: 1 ensembleSize: 1 length: 9 lastEntryId: 4 segment { ensembleMember: "a" '
END = b"firstEntryId: 0 } "
RAWS = {
    "empty": b"", "another head": b"Bookie\t3\n", "a secret": b"password", "no line": HEAD + b"3",
    "version 0": HEAD + b"0\n", "version 4": HEAD + b"4\n", "version 03": HEAD + b"03\n",
    "v3, no message": HEAD + b"3\n", "v3, no fields": HEAD + b"3\n\x00",
    "v3, half": HEAD + b"3\n\x05\x08",
    "v3, a byte too few": encode_ledger(ledger())[:-1],
    "v3, no length": HEAD + b"3\n" + b"\xff" * 6,
    "v3, no message at all": HEAD + b"3\n\x02\xff\xff",
    "v3, and more behind": encode_ledger(ledger()) + b"more",
    "v2, closed": HEAD + b"2\n" + TEXT + END + b"state: CLOSED",
    "v2, open": HEAD + b"2\n" + TEXT + END + b"state: OPEN",
    "v2, full": HEAD + b"2\n" + TEXT + END + b'state: CLOSED digestType: HMAC password: "p" '
    b'ackQuorumSize: 1 ctime: 5 cToken: 6 customMetadata { key: "k" value: "v" }',
    "v2, a password without a digest": HEAD + b"2\n" + TEXT + END + b'state: OPEN password: "p"',
    "v2, more bookies than writes": HEAD + b"2\n" + TEXT.replace(b"Size: 1 l", b"Size: 2 l")
    .replace(b'"a" ', b'"a" ensembleMember: "b" ') + END + b"state: OPEN",
    "v2, a long ledger": HEAD + b"2\n" + TEXT.replace(b"9", b"9000000000000000000") + END
    + b"state: CLOSED",
    "v1, the first fragment names a blank": HEAD + b"1\n1\n1\n0\n0\ta b\n5\ta\n",
    "v2, no state": HEAD + b"2\n" + TEXT + END,
    "v2, fewer writes than acks": HEAD + b"2\n" + TEXT + END + b"state: OPEN ackQuorumSize: 2",
    "v2, a name with a blank": HEAD + b"2\n" + TEXT.replace(b'"a"', b'"a b"') + END
    + b"state: OPEN",
    "v2, a long name": HEAD + b"2\n" + TEXT.replace(b'"a"', b'"%s"' % (b"a" * 256)) + END
    + b"state: OPEN",
    "v2, a name that is just not": HEAD + b"2\n" + TEXT.replace(b'"a"', b'"%s"' % (b"a" * 255))
    + END + b"state: OPEN",
    "v2, no UTF-8": HEAD + b"2\n\xff", "v2, no text of it": HEAD + b"2\nlength",
    "v2, no fragment": HEAD + b"2\nquorumSize: 1 ensembleSize: 1 length: 0 state: OPEN",
    "v2, below 0": HEAD + b"2\n" + TEXT.replace(b"9", b"-9") + END + b"state: CLOSED",
    "v1, open": HEAD + b"1\n2\n3\n0\n0\ta\tb\tc\n5\ta\tb\td\n",
    "v1, closed": HEAD + b"1\n2\n3\n70\n0\ta\tb\tc\n4\tCLOSED",
    "v1, in recovery": HEAD + b"1\n2\n3\n70\n0\ta\tb\tc\n-102\tCLOSED",
    "v1, too many entries": HEAD + b"1\n1\n1\n0\n0\ta\n4611686018427387904\tCLOSED",
    "v1, closed and empty": HEAD + b"1\n2\n3\n0\n0\ta\tb\tc\n-1\tCLOSED",
    "v1, closed, and more behind": HEAD + b"1\n1\n1\n0\n0\ta\n4\tCLOSED\n9\tb\n",
    "v1, open with a length": HEAD + b"1\n1\n1\n8\n0\ta\n",
    "v1, two lines": HEAD + b"1\n1\n1\n", "v1, words": HEAD + b"1\na\nb\nc\n0\ta\n",
    "v1, no fragment": HEAD + b"1\n1\n1\n0\n", "v1, begins at 3": HEAD + b"1\n1\n1\n0\n3\ta\n",
    "v1, fewer bookies": HEAD + b"1\n1\n2\n0\n0\ta\n",
}  # fmt: skip


def test_ledgers_as_they_are_read(snapshot: SnapshotAssertion) -> None:
    def read(raw: bytes) -> str:
        return facts(decode_ledger(raw, ledger_id=LedgerId(5), stored_at_ms=77))

    assert snapshot(extension_class=Words) == table(rows_of(read, RAWS))


def test_cookies(snapshot: SnapshotAssertion) -> None:
    cookies = {
        **{
            f"layout {n}": Cookie(A, ("/j",), ("/l", "/m"), "id", layout_version=n)
            for n in range(2, 7)
        },
        **{
            f"all, layout {n}": Cookie(A, ("/j", "/k"), ("/l",), "id", ("/i", "/h"), n)
            for n in (3, 4, 5)
        },
        "no instance": Cookie(A, ("/j",), ("/l",), ""),
        "other letters": Cookie(A, ('/ä"',), ("/l,m",), "id"),
        **{
            f"journal {one!r}": Cookie(A, (one,), ("/l",), "id")
            for one in ("", "/a,b", "/a\nb", "/a\tb")
        },
        **{f"folder {one!r}": Cookie(A, ("/j",), (one,), "id") for one in ("", "/a\nb", "/a\tb")},
        **{f"index {one!r}": Cookie(A, ("/j",), ("/l",), "id", (one,)) for one in ("", "/a\tb")},
    }  # fmt: skip
    raws = (
        b"", b"x", b"2\n", b"3\na\n/j,/k\n1\t/l\n", b"3\na\n/j\n",
        b"3\na\n/j\n1\t/l\nmore\nand more",
        b"3\na\n/j\n2\t/l", b"3\na\n/j\nx\t/l", b"3\na\n/j\n0", b"3\na\n/j\n-1\t/l",
        b'4\nbookieHost: "a"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\n',
        b'4\nbookieHost: "a"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\nindexDirs: "1\\t/i"\n',
        b'5\nbookieHost: "a"\njournalDir: "/j"\n', b'5\nother: "a"\n', b"5\n\xff", b" 5 \n",
        b'5\nbookieHost: "a"\njournalDir: ""\nledgerDirs: "0"\nindexDirs: "2\\t/i"\n',
    )  # fmt: skip

    def both(one: Cookie) -> str:
        raw = encode_cookie(one)
        return f"{raw!r}\n    {facts(decode_cookie(raw))}"

    rows = [*rows_of(both, cookies), *rows_of(lambda raw: facts(decode_cookie(raw)), by_name(raws))]
    assert snapshot(extension_class=Words) == table(rows)


def test_boots(snapshot: SnapshotAssertion) -> None:
    boots = (
        StoredBoot(0),
        StoredBoot(7, "ä", 12, 6, "why", lease_s=75),
        StoredBoot(7, is_bare=True),
    )
    whole = json.loads(encode_boot(boots[1]))
    others: dict[str, tuple[Any, ...]] = {
        "epoch": (-1, 1.0, True, "1", None), "generation": (-1, "x"), "served": (-1, None),
        "nonce": (5, None), "rolledBack": (0, []), "more": (1,),
        "lease": (-1, 0, True, "75", None, 1e400),
    }  # fmt: skip
    changed = [{name: value} for name, values in others.items() for value in values]
    raws = [json.dumps(whole | one).encode() for one in changed]
    raws += [json.dumps({k: v for k, v in whole.items() if k != name}).encode() for name in whole]
    raws += [
        encode_boot(boots[1]).replace(b"75", b"1e400"),
        b"7",
        b"0",
        b"-7",
        b"7.0",
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"7\n",
        b"9" * 30,
        b"[" * 9999,
    ]

    def read(raw: bytes) -> str:
        return facts(decode_boot(raw, bookie_id=A))

    rows = [
        *rows_of(encode_boot, {facts(one): one for one in boots}),
        *rows_of(read, by_name(raws)),
    ]
    assert snapshot(extension_class=Words) == table(rows)


RPC = Endpoint("bookie-rpc", "10.0.0.1", 3181, "bookie-rpc", ("tls", "sasl"))
RUN = Endpoint("bookie-run", "h", 0, "bookie-run")


def test_registrations(snapshot: SnapshotAssertion) -> None:
    infos = {
        "least": BookieInfo(A, ()), "one": BookieInfo(A, (RPC,)), "two": BookieInfo(A, (RUN, RPC)),
        "all": BookieInfo(A, (RPC, RUN), {"rack": "/a", "bootEpoch": "7"}, read_only=True),
        "port 65535": BookieInfo(A, (Endpoint("i", "h", 65535, "p"),)),
        "port 65536": BookieInfo(A, (Endpoint("i", "h", 65536, "p"),)),
        "port -1": BookieInfo(A, (Endpoint("i", "h", -1, "p"),)),
        "epoch of 18 digits": BookieInfo(A, (), {"bootEpoch": "1" * 18, "rack": ""}),
        "epoch of 19 digits": BookieInfo(A, (), {"bootEpoch": "1" * 19}),
        "epoch in other digits": BookieInfo(A, (), {"bootEpoch": "\u0661"}),
    }  # fmt: skip
    names = (
        "a:1", "a", ":1", "a:", "a:65535", "a:65536", "a:100000", "a:-1", "a:x", "[::1]:3181",
        "::1:3181", "a:b:3", "a:\u0661",
    )  # fmt: skip

    def both(one: BookieInfo) -> str:
        raw = encode_info(one)
        back = decode_info(raw, bookie_id=A, read_only=one.read_only)
        first = facts(back.first_of(("x", "bookie-run")))
        seen = f"{back.takes_runs} {back.rack} {back.boot_epoch} {first}"
        return f"{raw.hex()}\n    {facts(back)}\n    {seen}"

    def old(name: str) -> str:
        return facts(decode_info(b"", bookie_id=BookieId(name), read_only=False).endpoints)

    def garbled(raw: bytes) -> str:
        return facts(decode_info(raw, bookie_id=A, read_only=False))

    rows = [*rows_of(both, infos), *rows_of(old, by_name(names))]
    raws = (
        b"\xff",
        b"\x0a\x02\x0a\x00",
        b"\x0a\x0d\x0a\x01\xff\x10\x01\x1a\x01h\x22\x01p",
        b"\x12\x00",
    )
    rows += rows_of(garbled, by_name(raws))
    assert snapshot(extension_class=Words) == table(rows)


IDS = (
    0, 1, 9999, 10_000, 99_999_999, 100_000_000, 2**31 - 2, 2**31 - 1, 2**31, 2**32, 10**12,
    2**63 - 1, 2**63, -1,
)  # fmt: skip


def test_paths_of_ledgers(snapshot: SnapshotAssertion) -> None:
    def of(ledger_id: LedgerId) -> str:
        long = partial(ledger_path, long_layout=True)
        shown = [said(partial(make, ledger_id)) for make in (ledger_path, long, mark_folder)]
        return "\n    ".join([*shown, mark_node(ledger_id)])

    rows = rows_of(of, {str(number): LedgerId(number) for number in IDS})
    paths = (
        "00/0000/L0001", "21/4748/L3646", "99/9999/L9999", "000/0000/0000/0000/L0001",
        "922/3372/0368/5477/L5807", "999/9999/9999/9999/L9999", "00/0000/0001", "00/0000/M0001",
        "00/0000/L001", "00/0000/L00001", "0/00000/L0001", "00/0000/L00a1",
        "00/0000/L\u0660\u0660\u0660\u0661",
        "L0001", "", "00/0000", "000/0000/0000/L0001",
    )  # fmt: skip
    rows += rows_of(ledger_id_of, by_name(paths))
    folders = (
        "0000/0000/0000/0001", "7fff/ffff/ffff/ffff", "8000/0000/0000/0000", "0000/0000/0001",
        "0000/0000/0000/000G", "0000/0000/0000/000A", "0000/0000/0000/00001",
    )  # fmt: skip
    rows += rows_of(marked_ledger, by_name(folders))
    names = ("0000", "000", "00", "abcd", "ABCD", "00000", "\u0660\u0660", "L000", "", "idgen")

    def kinds(name: str) -> str:
        return f"{[is_folder(name, length=n) for n in (2, 3, 4)]} {is_mark_folder(name)}"

    rows += rows_of(kinds, by_name(names))
    assert snapshot(extension_class=Words) == table(rows)


def test_paths_of_a_cluster(snapshot: SnapshotAssertion) -> None:
    def all_of(root: str) -> str:
        paths = Paths(root)
        names = [one for one, kind in vars(Paths).items() if isinstance(kind, property)]
        shown = [f"{name}: {getattr(paths, name)}" for name in names]
        more = [*paths.folders("INSTANCE"), paths.high_ids(7), paths.mark(LedgerId(7))]
        return "\n    ".join([*shown, *more, paths.mark_lock(LedgerId(7))])

    roots = ("/ledgers", "/a/b/ledgers", "/", "", "ledgers", "/a/", "/a//b", "/a/./b", "/..")
    rows = rows_of(all_of, by_name(roots))
    names = (
        "logs/a",
        "logs/",
        "logs",
        "Logs/a",
        "a",
        "a/b",
        "",
        ".",
        "..",
        "...",
        "x" * 250,
        "x" * 251,
    )
    rows += rows_of(lambda name: f"{value_kind(name)}/{value_node(name)}", by_name(names))
    assert snapshot(extension_class=Words) == table(rows)


def test_access_lists(snapshot: SnapshotAssertion) -> None:
    """Which list a znode of each place gets, and which are right there, for each kind of fleet."""
    fleet, other, client = Id("x509", "CN=fleet"), Id("sasl", "fleet"), Id("x509", "CN=client")
    fleets = {
        "open": OPEN, "one": Access((fleet,), client),
        "super": Access((fleet,), client, is_super=True),
        "two": Access((other, fleet)), "super, any client": Access((other,), is_super=True),
    }  # fmt: skip
    lists = {
        "open": list(OPEN_ACL_UNSAFE), "the client's": [ACL(31, client)],
        "the fleet's": [ACL(31, fleet)],
        "anyone may read": [ACL(1, OPEN.clients)], "none": [],
    }  # fmt: skip
    rows = []
    for name, access in fleets.items():
        for place in Place:
            wanted = access.list_of(place)
            right = [what for what, one in lists.items() if access.is_right(place, one)]
            right += ["the other way round"] if access.is_right(place, wanted[::-1]) else []
            right += ["one fewer"] if access.is_right(place, wanted[1:]) else []
            shown = ", ".join(f"{one.id.scheme}:{one.id.id}={one.perms}" for one in wanted)
            rows.append(f"{name}, {place.label}: {shown}; right: {', '.join(right)}\n")
    assert snapshot(extension_class=Words) == "".join(rows)


def test_places(snapshot: SnapshotAssertion) -> None:
    own = "/a/bookie-operator"
    paths = (
        "/", "/a", "/b", "/a/b", "/a/b/ledgers", "/a/ledgers", "/a/ledgers2", "/a/ledger", own,
        *(f"/a/ledgers/{one}" for one in (
            "LAYOUT", "INSTANCEID", "available", "available/readonly/b", "cookies/b", "idgen",
            "idgen/ID-1", "idgen-long/HOB-1/ID-1", "underreplication/LAYOUT", "00",
            "00/x", "\u0660",
            "00a", "other", "logs", "values",
        )),
        *(f"{own}/{one}" for one in (
            "I", "I/barriers", "I/barriers/x", "I/epochs", "I/epochs/b", "I/private", "I/values",
            "I/values/logs%2Fa", "I/values/logs", "I/values/a", "I/other", "I/private/logs%2Fa",
        )),
        "/a/bookie-operators",
    )  # fmt: skip
    shown = [f"{path}: {place_of(path, Paths('/a/ledgers'))}" for path in paths]
    top = [f"{path}: {place_of(path, Paths('/ledgers'))}" for path in ("/", "", "/bookie-operator")]
    assert snapshot(extension_class=Words) == "\n".join([*shown, "of /ledgers", *top, ""])


def test_troubles_of_connections(snapshot: SnapshotAssertion) -> None:
    def refused(code: int | None, words: str) -> ssl.SSLCertVerificationError:
        error = ssl.SSLCertVerificationError(1, words)
        if code is not None:
            error.verify_code, error.verify_message = code, words
        return error

    def alert(reason: str | None) -> ssl.SSLError:
        error = ssl.SSLError(1, "said by the library")
        error.reason = reason  # type: ignore[assignment]
        return error

    errors: list[BaseException] = [
        *(refused(code, "verify failed.") for code in (None, 9, 10, 18, 20, 62, 63, 64)),
        *map(alert, ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")),
        *map(alert, ("UNEXPECTED_EOF_WHILE_READING", "TLSV1_ALERT_UNKNOWN_CA", None)),
        ConnectionRefusedError(111, "Connection refused"), OSError(), TimeoutError("timed out"),
        ConnectionDropped("dropped"), ConnectionDropped(),
    ]  # fmt: skip
    shown = [
        f"{where}, {type(one).__name__}: {trouble_of(one, where='zk:1', directory=directory)}"
        for where, directory in (("plain", None), ("TLS", Path("/tls")))
        for one in errors
    ]
    assert snapshot(extension_class=Words) == "\n".join([*shown, ""])


def test_requests_that_kazoo_does_not_know(snapshot: SnapshotAssertion) -> None:
    stat = bytes(16) + (1234).to_bytes(8, "big") + bytes(8) + (5).to_bytes(4, "big") + bytes(32)
    head, error, end = (
        b"\0\0\0\4\0\0\0\0\0",
        b"\xff\xff\xff\xff\0\0\0\0\0",
        b"\xff\xff\xff\xff\1" + b"\xff" * 4,
    )
    data = head + b"\0\0\0\3abc" + stat
    none = head + b"\xff\xff\xff\xff" + stat
    gone = error + b"\xff\xff\xff\x9b"

    def text(word: str) -> bytes:
        return len(word).to_bytes(4, "big") + word.encode()

    rows: list[Row] = [
        ("multi-read", lambda: f"{MultiRead.type} {MultiRead(['/a', '/ä']).serialize().hex()}"),
        ("none", lambda: MultiRead([]).serialize().hex()),
        ("answers", lambda: facts(MultiRead(["/"] * 3).deserialize(data + gone + none + end, 0))),
        ("behind others", lambda: facts(MultiRead(["/"]).deserialize(b"xx" + data + end, 2))),
        ("too few", lambda: MultiRead(["/"] * 2).deserialize(data + end, 0)),
        ("too many", lambda: MultiRead(["/"]).deserialize(data + gone + end, 0)),
        ("whoami", lambda: f"{Whoami.type} {Whoami().serialize()!r}"),
        ("a name without an id", lambda: facts(Whoami().deserialize(
            b"\0\0\0\2" + text("ip") + b"\xff\xff\xff\xff" + text("x509") + text("CN"), 0))),
        ("nobody", lambda: facts(Whoami().deserialize(bytes(4), 0))),
        ("two", lambda: facts(Whoami().deserialize(
            b"x\0\0\0\2" + text("ip") + text("1.2.3.4") + text("x509") + b"\xff\xff\xff\xff", 1))),
    ]  # fmt: skip
    marks = [
        UnderreplicationMark(LedgerId(1), missing, ctime, 3)
        for missing, ctime in (((), 0), ((A,), 5), ((B, A), 2**62))
    ]
    rows += rows_of(encode_mark, {facts(one): one for one in marks})
    assert snapshot(extension_class=Words) == table(rows)
