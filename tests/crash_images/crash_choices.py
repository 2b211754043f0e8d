"""Which images a crash may leave: choices, one for each change that was not synced.

An image is named by its choices in the order in which the disk asks for them: `1` kept, `0` lost.
What the disk asks depends on what was kept before (a file without a name has no bytes), so all
images are the leaves of a tree. No choice in one directory bears on another: each directory's
tree is walked by itself, and the images of the disk are the product of what was found.
"""

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bookie.testing.inline import InlineDisk
from bookie.testing.volatile import Directory, Link, Resize, Write, image_of

Change = tuple[Path, Write | Resize | Link]

KILLED: Final = "kill"
"""Name of the image that SIGKILL leaves: all writes are there, and not durable yet."""
CHOICES_MAX: Final = 12
"""Of one directory; with more its images are drawn, not enumerated."""


@dataclass(slots=True)
class Choices:
    """Answers to the disk: from `answer`, given the number of the question."""

    answer: Callable[[int], bool]
    kept: list[bool] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def keeps(self, path: Path, change: Write | Resize | Link) -> bool:
        keep = self.answer(len(self.kept))
        self.kept.append(keep)
        self.changes.append((path, change))
        return keep

    @property
    def name(self) -> str:
        return "".join("1" if keep else "0" for keep in self.kept)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One state of one directory: the choices that lead to it, and what tells it from others."""

    name: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Image:
    """What one crash left. Equal keys: the same files with the same bytes, as durable."""

    name: str
    key: object


@dataclass(frozen=True, slots=True)
class Images:
    """Images of one crash point. `is_complete`: every one that a power cut may leave."""

    found: Sequence[Image]
    is_complete: bool


class Chooser:
    """Finds the images of the crash points of one trace; what they share is looked at once."""

    def __init__(self, *, images_max: int, seeds: int) -> None:
        """Where there are more than `images_max`: the extremes, single changes, `seeds` more."""
        self._images_max = images_max
        self._seeds = seeds
        self._leaves: dict[object, tuple[Directory, list[Leaf] | None]] = {}

    def images(self, disk: InlineDisk, *, seed: str) -> Images:
        """What a power cut may leave of a snapshot, and what SIGKILL leaves."""
        parts = [self._leaves_of(*item) for item in sorted(disk.directories.items(), key=_place)]
        killed = Image(KILLED, _key_of_killed(disk))
        found = _product(parts, self._images_max)
        if found is not None:
            return Images([*found, killed], is_complete=True)
        drawn = _drawn(disk, seeds=self._seeds, chance=random.Random(seed))
        return Images([*drawn, killed], is_complete=False)

    def _leaves_of(self, path: Path, directory: Directory) -> list[Leaf] | None:
        """The states that one directory may be left in; None = too many."""
        state = (
            path,
            tuple((name, id(inode)) for name, inode in directory.durable.items()),
            tuple((link.name, link.gone, id(link.inode)) for link in directory.pending),
        )
        if state not in self._leaves:
            # The directory is kept: its ids must not come to mean other files.
            self._leaves[state] = (directory, _leaves(path, directory))
        return self._leaves[state][1]


def _place(item: tuple[Path, Directory]) -> str:
    return str(item[0])


def _leaves(path: Path, directory: Directory) -> list[Leaf] | None:
    """Walks the tree of one directory; of equal states the first."""
    found: dict[bytes, Leaf] = {}
    kept = ""
    while True:
        choices = _named(kept)
        left = image_of({path: directory}, choices.keeps)[path]
        if len(choices.kept) > CHOICES_MAX:
            return None
        key = _key(left)
        found.setdefault(key, Leaf(choices.name, key))
        kept = choices.name.rstrip("1")
        if not kept:
            return list(found.values())
        kept = kept[:-1] + "1"


def _key(directory: Directory) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for name, inode in sorted(directory.seen.items()):
        found.update(f"{name} {len(inode.seen)}\n".encode())
        found.update(inode.seen)
    return found.digest()


def _product(parts: Sequence[list[Leaf] | None], images_max: int) -> list[Image] | None:
    if None in parts or math.prod(len(leaves) for leaves in parts if leaves) > images_max:
        return None
    return [
        Image("".join(leaf.name for leaf in chosen), tuple(leaf.key for leaf in chosen))
        for chosen in itertools.product(*(leaves or [] for leaves in parts))
    ]


def _drawn(disk: InlineDisk, *, seeds: int, chance: random.Random) -> Iterator[Image]:
    """All lost, all kept, all but one lost, all but one kept, and `seeds` drawn ones."""
    yield _chosen(disk, lambda _at: False)
    everything = _chosen(disk, lambda _at: True)
    yield everything
    for one in range(len(everything.name)):
        yield _chosen(disk, lambda at, one=one: at == one)  # type: ignore[misc]
        yield _chosen(disk, lambda at, one=one: at != one)  # type: ignore[misc]
    for _ in range(seeds):
        keep = chance.choice([0.2, 0.5, 0.8])
        yield _chosen(disk, lambda _at, keep=keep: chance.random() < keep)  # type: ignore[misc]


def _chosen(disk: InlineDisk, answer: Callable[[int], bool]) -> Image:
    choices = Choices(answer)
    left = image_of(disk.directories, choices.keeps)
    return Image(choices.name, tuple(map(_key, left.values())))


def _key_of_killed(disk: InlineDisk) -> object:
    """What is seen, and apart from images that are durable."""
    return (
        KILLED,
        *(_key(directory) for _, directory in sorted(disk.directories.items(), key=_place)),
    )


def made(disk: InlineDisk, name: str) -> InlineDisk:
    """The image of that name of a snapshot, for one boot; what the name does not say is lost."""
    if name == KILLED:
        return disk.snapshot({}).kill()
    return disk.image(_named(name).keeps)


def told(disk: InlineDisk, name: str, *, kept: bool) -> list[str]:
    """In words: the changes that an image keeps, or those that it has lost."""
    if name == KILLED:
        return ["everything, by SIGKILL"] if kept else []
    choices = _named(name)
    disk.image(choices.keeps)
    return [
        f"{path.parent.name}/{path.name}: {change}"
        for (path, change), keep in zip(choices.changes, choices.kept, strict=True)
        if keep == kept
    ]


def _named(name: str) -> Choices:
    return Choices(lambda at: name[at : at + 1] == "1")
