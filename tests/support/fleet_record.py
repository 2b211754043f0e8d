"""What is written down of a fleet in the simulation: see `fleet_story`.

A line has the time in tenths of a second, who does it, and what. Lines that repeat are counted, and
what the metadata store answers to the same question as the last time is "as before".
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.testing.metadata import WrappedUnderreplication
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.metadata import SimStore
from fleet_messages import reply_words, request_words
from fleet_words import from_the_beginning, numbered, shown


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

    def note_each(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.note(line)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing of it is written down."""
        before, self.is_quiet = self.is_quiet, True
        try:
            yield
        finally:
            self.is_quiet = before

    @property
    def text(self) -> str:
        found, last = [], ""
        for when, text, often in self._lines:
            mark = when if when != last else " " * len(when)
            times = f" (x{often})" if often > 1 else ""
            found.append(f"{mark}  {text}{times}".rstrip())
            last = when
        return from_the_beginning(numbered("\n".join(found))) + "\n"

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
            self.note(f"{asker}/{connection} > {bookie}: {request_words(parse_envelope(message))}")

    def said(self, bookie: str, connection: int, message: bytes) -> None:
        asker = self._askers.get(connection, "?")
        if self.shows_messages:
            self.note(f"{bookie} > {asker}/{connection}: {reply_words(parse_envelope(message))}")

    def answered(self, client: str, connection: int, message: bytes) -> None:
        """What was said is written down already."""

    def cleared(self, bookie: str, ledger_id: LedgerId) -> None:
        """The answer of the control plane says it."""

    def listed(
        self, bookie: str, ledger_id: LedgerId, held: EntrySet, lost: EntrySet, *, asked: int
    ) -> None:
        """The answer of the control plane says it."""


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
