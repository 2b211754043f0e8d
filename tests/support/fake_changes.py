"""The changes of a fake API server, as its watches send them: in the order of their versions.

A watch may begin at any version that is not older than what is remembered; a later one is told to
list again, as a real server does once it has compacted its history.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from bookie_operator.platform.kubernetes.api import Kind, Object, typed

REMEMBERED_MAX: Final = 20_000
BOOKMARK_S: Final = 60.0
"""How often a watch that hears nothing gets a version to begin at again."""
GONE: Final = 410

Labels = Mapping[str, str]


class ExpiredError(Exception):
    """The version to begin at is older than what is remembered."""


class UnknownSelectorError(Exception):
    """The selector is of a form that this server does not know."""


@dataclass(frozen=True, slots=True)
class Selector:
    """`a=b,c`: labels with this value, and labels that are there. Empty takes everything."""

    wanted: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Selector":
        found: list[tuple[str, str | None]] = []
        for part in filter(None, text.split(",")):
            name, equals, value = part.partition("=")
            if not name or set("!() =") & set(name + value):
                raise UnknownSelectorError(f"unable to parse requirement: {part!r}")
            found.append((name, value if equals else None))
        return cls(tuple(found))

    @property
    def equal_labels(self) -> Labels:
        """Those that are wanted with a value."""
        return {name: value for name, value in self.wanted if value is not None}

    def takes(self, labels: Labels | None) -> bool:
        """None: of an object that is not there."""
        return labels is not None and all(
            name in labels and value in (None, labels[name]) for name, value in self.wanted
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one object: its labels before and after it, None where it is not there."""

    version: int
    kind: Kind
    thing: Object
    before: Labels | None
    after: Labels | None

    def as_seen_by(self, selector: Selector) -> str:
        """The type of event; empty = a watch with this selector does not hear of it."""
        was, is_now = selector.takes(self.before), selector.takes(self.after)
        if is_now:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else ""


class Changes:
    """The latest changes of all objects of a server."""

    def __init__(self, *, remembered: int = REMEMBERED_MAX) -> None:
        self._latest: deque[Change] = deque(maxlen=remembered)
        self._labels: dict[str, Labels] = {}
        """By uid, of every object that is there."""
        self._forgotten = 0
        """Version of the last change that is not remembered any more."""
        self._news = asyncio.Event()

    def tell(self, kind: Kind, thing: Object, *, version: int, is_gone: bool) -> None:
        uid = str(thing["metadata"]["uid"])
        labels = dict(thing["metadata"].get("labels") or {})
        before = self._labels.pop(uid, None)
        if not is_gone:
            self._labels[uid] = labels
        if len(self._latest) == self._latest.maxlen:
            self._forgotten = self._latest[0].version
        change = Change(version, kind, thing, before, None if is_gone else labels)
        self._latest.append(change)
        self._news.set()
        self._news = asyncio.Event()

    @property
    def version(self) -> int:
        """Of the last change; 0 = there was none."""
        return self._latest[-1].version if self._latest else self._forgotten

    async def follow(
        self, kind: Kind, namespace: str, selector: Selector, *, since: int
    ) -> AsyncIterator[Object]:
        """Events after that version, bookmarks among them; an empty namespace means all.

        ExpiredError when changes since then are not remembered.
        """
        while True:
            if since < self._forgotten:
                raise ExpiredError(f"too old resource version: {since} ({self._forgotten})")
            news = self._news
            for change in self._after(since):
                since = change.version
                if change.kind != kind or not _lies_in(change.thing, namespace):
                    continue
                type_ = change.as_seen_by(selector)
                if type_:
                    yield {"type": type_, "object": change.thing}
            try:
                async with asyncio.timeout(BOOKMARK_S):
                    await news.wait()
            except TimeoutError:
                bookmark = typed(kind, {"metadata": {"resourceVersion": str(since)}})
                yield {"type": "BOOKMARK", "object": bookmark}

    def _after(self, version: int) -> list[Change]:
        found = []
        for change in reversed(self._latest):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]


def _lies_in(thing: Object, namespace: str) -> bool:
    return not namespace or thing["metadata"].get("namespace") == namespace
