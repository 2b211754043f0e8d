"""What a simulated disk holds: bytes and names as seen now, as durable, and the changes in between.

`image_of` is the one definition of what a machine may find after a power cut. Of all changes that
were not synced any subset may be there: sectors of each write, sizes, names. Whoever chooses is
asked change by change, always in the same order, and only where the answer makes a difference;
so a list of answers is an image, and all lists are all images.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put at an offset."""

    offset: int
    content: bytes

    def __str__(self) -> str:
        return f"{len(self.content)} bytes at {self.offset}"


@dataclass(frozen=True, slots=True)
class Resize:
    """A file cut off, or made longer with zeros."""

    size: int

    def __str__(self) -> str:
        return f"size {self.size}"


@dataclass(slots=True)
class Inode:
    """One file: `seen` is what readers get, `durable` what a crash leaves at least."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Resize] = field(default_factory=list)

    def change(self, change: Write | Resize) -> None:
        apply(self.seen, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            apply(self.durable, change)
        self.pending.clear()

    def copied(self) -> "Inode":
        return Inode(bytearray(self.seen), bytearray(self.durable), list(self.pending))


@dataclass(frozen=True, slots=True)
class Link:
    """A change of names: `name` now means `inode`, and `gone` nothing any more."""

    name: str | None
    inode: Inode | None
    gone: str | None

    def __str__(self) -> str:
        if self.name is None:
            return f"{self.gone} removed"
        return f"{self.gone} renamed to {self.name}" if self.gone else f"{self.name} created"


@dataclass(slots=True)
class Directory:
    """The names in one directory."""

    seen: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    pending: list[Link] = field(default_factory=list)

    def change(self, link: Link) -> None:
        _relink(self.seen, link)
        self.pending.append(link)

    def sync(self) -> None:
        for link in self.pending:
            _relink(self.durable, link)
        self.pending.clear()


Directories = Mapping[Path, Directory]
Keeps = Callable[[Path, Write | Resize | Link], bool]
"""Whether a change that was not synced is there after the crash; of a file, or of a directory."""


def apply(content: bytearray, change: Write | Resize) -> None:
    """Does to the bytes what the change says."""
    if isinstance(change, Resize):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    end = change.offset + len(change.content)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.offset : end] = change.content


def _relink(names: dict[str, Inode], link: Link) -> None:
    if link.gone is not None:
        names.pop(link.gone, None)
    if link.name is not None and link.inode is not None:
        names[link.name] = link.inode


def image_of(directories: Directories, keeps: Keeps) -> dict[Path, Directory]:
    """What a power cut leaves, all of it durable; `directories` stay as they are."""
    made: dict[int, Inode] = {}
    found = {}
    for path, directory in sorted(directories.items(), key=_name):
        names = dict(directory.durable)
        for link in directory.pending:
            if keeps(path, link):
                _relink(names, link)
        for name, inode in names.items():
            if id(inode) not in made:
                made[id(inode)] = _inode_image(path / name, inode, keeps)
            names[name] = made[id(inode)]
        found[path] = Directory(names, dict(names))
    return found


def _name(item: tuple[Path, Directory]) -> str:
    return str(item[0])


def _inode_image(path: Path, inode: Inode, keeps: Keeps) -> Inode:
    content = bytearray(inode.durable)
    for change in inode.pending:
        for part in _parts(change):
            if _matters(content, part) and keeps(path, part):
                apply(content, part)
    return Inode(content, bytearray(content))


def _matters(content: bytearray, part: Write | Resize) -> bool:
    """False where the bytes are the same with and without it."""
    if isinstance(part, Resize):
        return len(content) != part.size
    return content[part.offset : part.offset + len(part.content)] != part.content


def _parts(change: Write | Resize) -> Iterator[Write | Resize]:
    """A write cut at the sector boundaries of its file."""
    if isinstance(change, Resize):
        yield change
        return
    end = change.offset + len(change.content)
    start = change.offset
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        yield Write(start, change.content[start - change.offset : stop - change.offset])
        start = stop


def copy_of(
    directories: Directories, known: dict[int, tuple[Inode, Inode]]
) -> dict[Path, Directory]:
    """The same state, independent of what happens from now on.

    `known` keeps the copies of earlier calls: a file that has not changed since is not copied
    again, so none of the copies may be changed.
    """
    copies: dict[int, Inode] = {}

    def copied(inode: Inode) -> Inode:
        if id(inode) not in copies:
            copies[id(inode)] = _copy_of_inode(inode, known)
        return copies[id(inode)]

    return {
        path: Directory(
            {name: copied(inode) for name, inode in directory.seen.items()},
            {name: copied(inode) for name, inode in directory.durable.items()},
            [
                Link(link.name, copied(link.inode) if link.inode else None, link.gone)
                for link in directory.pending
            ],
        )
        for path, directory in directories.items()
    }


def _copy_of_inode(inode: Inode, known: dict[int, tuple[Inode, Inode]]) -> Inode:
    # The original is kept with its copy: its id must not come to mean another file.
    _, copy = known.get(id(inode), (inode, None))
    if copy is None or copy != inode:
        copy = inode.copied()
        known[id(inode)] = (inode, copy)
    return copy
