"""What lies on the disks of a story, and what a boot of it came to, line by line."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from bookie.errors import CorruptError, FrameError
from bookie.frames.frame import RunFrame, parse_run
from bookie.protocol.availability import EntrySet
from bookie.server.lifecycle import Bookie
from bookie.storage.index import INDEX_NAME
from bookie.storage.journal_records import NOTED, RecordKind, find_records
from bookie.storage.log_files import (
    HEADER_BYTES,
    JOURNAL_FILES,
    LOG_FILES,
    FileKind,
    decode_header,
)
from bookie.storage.records import Boundary, LedgerRecord
from bookie.testing.disk import SimDisk
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.volatile import Inode
from fleet_words import digest, shown

_KINDS: Final = {".jnl": JOURNAL_FILES, ".log": LOG_FILES}
_JSON_MAX: Final = 400
Where = Callable[[str], bool]


def disk_of(disk: SimDisk, root: Path, *, where: Where = lambda _name: True) -> Iterator[str]:
    """Every file below `root` whose path there pleases `where`; no operation counts as one."""
    for directory in sorted(each for each in disk.directories if root in (each, *each.parents)):
        names = disk.directories[directory]
        place = str(directory.relative_to(root))
        if where(place) and names.pending:
            yield f"{place}: names not synced: {', '.join(map(str, names.pending))}"
        for name in sorted(names.seen):
            path = f"{place}/{name}"
            if where(path):
                inode = names.seen[name]
                late = " (not synced)" if inode.pending else ""
                yield from _file(path, bytes(inode.seen), late)


def _file(path: str, content: bytes, late: str) -> Iterator[str]:
    name = path.rpartition("/")[2]
    kind = _KINDS.get(Path(name.removesuffix(".new")).suffix)
    if name.startswith(INDEX_NAME):
        yield f"{path}{late}: {'' if content else 'empty'}".rstrip(": ")
        yield from (f"    {line}" for line in rows_of(content))
    elif kind is not None:
        yield f"{path}{late}: {len(content)} B{_header(content, kind, Path(name))}"
        if name.endswith(".jnl"):
            yield from (f"    {line}" for line in _records(content))
        else:
            yield from (f"    {line}" for line in _frames(content))
    elif content[:1] == b"{" and len(content) < _JSON_MAX * 2:
        yield f"{path}{late}: {_small(content)}"
    else:
        yield f"{path}{late}: {content[:100]!r}"


def _small(content: bytes) -> str:
    try:
        return json.dumps(json.loads(content))
    except ValueError:
        return repr(content)


def _header(content: bytes, kind: FileKind, name: Path) -> str:
    if not content.rstrip(b"\0"):
        return ", empty"
    file_id = int(name.name.partition(".")[0])
    try:
        head = decode_header(content[:HEADER_BYTES], kind=kind, path=name, file_id=file_id)
    except CorruptError as error:
        return f", {error}"
    found = f", after {head.previous_id}:{head.previous_end}"
    if kind is JOURNAL_FILES:
        found += f", from record {head.first_sequence}, needs {head.first_needed}"
    return found


def _records(content: bytes) -> Iterator[str]:
    """Good records, wherever they are."""
    try:
        head = decode_header(
            content[:HEADER_BYTES], kind=JOURNAL_FILES, path=Path(), file_id=_id_of(content)
        )
    except CorruptError:
        return
    file = _Bytes(content)
    for raw in find_records(file, nonce=head.nonce, start=HEADER_BYTES):  # type: ignore[arg-type]
        kind, payload = RecordKind(raw.kind), bytes(raw.payload)
        what = ""
        if kind is RecordKind.LEDGER:
            what = shown(LedgerRecord.decode(payload)) + " noted" * bool(raw.traits & NOTED)
        elif kind is RecordKind.RUN:
            what = frame_shown(parse_run(payload))
        elif kind is RecordKind.TRIM:
            what = f"needs {int.from_bytes(payload, 'big')}"
        yield f"{raw.offset}: {raw.sequence} {kind.name} {what} (synced {raw.synced})"


def _id_of(content: bytes) -> int:
    return int.from_bytes(content[16:24], "big")


class _Bytes:
    """What `find_records` uses of a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def pread(self, length: int, offset: int) -> bytes:
        return self._content[offset : offset + length]


def _frames(content: bytes) -> Iterator[str]:
    at, view = HEADER_BYTES, memoryview(content)
    while at < len(content):
        try:
            frame = parse_run(view[at:])
        except FrameError:
            break
        yield f"{at}: {frame_shown(frame)}"
        at += len(frame.buffer)
    rest = content[at:].rstrip(b"\0")
    if rest:
        yield f"{at}: no frame, {digest(rest)}"


def frame_shown(frame: RunFrame) -> str:
    pattern = frame.pattern
    ids = shown(EntrySet.from_runs([(frame.first_entry_id, frame.count, pattern)]))
    if pattern.period:
        ids = f"{{{frame.first_entry_id}.. {pattern.size} of {pattern.period} x{frame.count}}}"
    flags = f" flags={frame.flags}" if frame.flags else ""
    return f"ledger {frame.ledger_id} {ids} lac {frame.lac}{flags} {len(frame.buffer)} B"


def rows_of(image: bytes) -> Iterator[str]:
    """All rows of an index."""
    if not image:
        return
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(image)
        try:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = sorted(names.fetchall())
        except sqlite3.DatabaseError as error:
            yield str(error)
            return
        for (table,) in tables:
            rows = database.execute(f"SELECT * FROM {table}").fetchall()
            if rows:
                yield f"{table}: {'; '.join(_row(table, row) for row in rows)}"


def _row(table: str, row: Sequence[object]) -> str:
    if table == "facts":
        name, value = str(row[0]), row[1]
        assert isinstance(value, bytes)
        if name.endswith("_boundary"):
            return f"{name} {shown(Boundary.decode(value))}"
        return f"{name} {value.decode()}"
    if table == "losses":
        assert isinstance(row[2], bytes)
        return f"{row[0]} {row[1]!r} {shown(EntrySet.decode(row[2]))}"
    return " ".join("-" if one is None else shown(one) for one in row)


# What somebody does to files behind a bookie's back
def gone(disk: SimDisk, path: Path) -> None:
    """The file is not there any more."""
    names = disk.directories[path.parent]
    names.seen.pop(path.name, None)
    names.durable.pop(path.name, None)


def put(disk: SimDisk, path: Path, content: bytes) -> None:
    """A file of this content, durably."""
    names = disk.directories[path.parent]
    names.seen[path.name] = names.durable[path.name] = Inode(bytearray(content), bytearray(content))


def files(disk: SimDisk, directory: Path, suffix: str) -> list[Path]:
    """The numbered files there, oldest first."""
    names = sorted(disk.directories[directory].seen)
    return [directory / name for name in names if name.endswith(suffix)]


def flip(disk: SimDisk, path: Path, offset: int) -> None:
    """Rot: one byte is another."""
    disk.damage(path, offset, bytes([disk.content(path)[offset] ^ 0x55]))


def plan_of(bookie: SimBookie) -> str:
    """The id of the plan that waits for a person; empty = none does."""
    boot = bookie.bookie.control.boot if bookie.is_up and bookie.bookie is not None else None
    return boot.progress.plan.plan_id if boot is not None and boot.progress.plan else ""


def approved(bookie: SimBookie, plan_id: str, by: str) -> str:
    """What the control plane says to a person who approves."""
    assert bookie.bookie is not None
    return repr(bookie.bookie.control.approve(plan_id, by))


def boot_of(bookie: SimBookie, name: str) -> Iterator[str]:
    """What its present boot is at, or what it was."""
    if bookie.bookie is None or not bookie.is_up:
        yield f"{name}: down, ended with {bookie.exit_code}"
        return
    yield from _boot_of(name, bookie.bookie)


def _boot_of(name: str, bookie: Bookie) -> Iterator[str]:
    state, boot, booted = bookie.state, bookie.control.boot, bookie.control.booted
    yield f"{name}: {state.phase.name} {state.message}".rstrip()
    if boot is None:
        return
    progress = boot.progress
    if not state.phase.serves:
        yield f"{name} at: {progress.step}; cluster {progress.instance_id or '-'}"
    verdicts = [*progress.verdicts, *[None] * len(progress.disks)]
    for disk, verdict in zip(progress.disks, verdicts, strict=False):
        marks = [
            verdict.name if verdict else "not judged",
            "" if disk.holds_store else "holds no store",
            "" if disk.holds_files else "holds no files",
            f"strange {disk.strange}" if disk.strange else "",
            disk.problem,
        ]
        yield f"{name} disk {disk.path}: {', '.join(filter(None, marks))}"
    if progress.plan is not None:
        yield f"{name} plan: {shown(progress.plan)}"
    if booted is not None:
        yield f"{name} record: {shown(booted.record)}"
        if booted.unchecked:
            yield f"{name} unchecked: {sorted(booted.unchecked)}"
        yield f"{name} report: {shown(booted.storage.report)}"
