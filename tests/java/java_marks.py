"""Our half of the tests of under-replication marks: one session, kept over many verbs.

A lock lasts as long as its session, so the session here lives as long as the run, on an event loop
in a thread of its own.
"""

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore
from java_metadata import Metadata

HOLDER: Final = "ours"
WAIT_S: Final = 20.0


class PythonMarks:
    """Verbs for `Control`; a context manager."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="marks", daemon=True)
        self._opened: MetadataStore | None = None

    def __enter__(self) -> "PythonMarks":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            self._done(self._opened.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def mark(self, words: list[str]) -> str:
        """`LEDGER NOW_MS BOOKIE...` -> its version."""
        missing = [BookieId(word) for word in words[2:]]
        ledger_id, now_ms = LedgerId(int(words[0])), int(words[1])
        marked = self._done(self._store.underreplication.mark(ledger_id, missing, now_ms=now_ms))
        return str(marked.version)

    def read(self, words: list[str]) -> str:
        """`LEDGER` -> `none`, or `CTIME_MS VERSION BOOKIE...`."""
        mark = self._done(self._store.underreplication.read_mark(LedgerId(int(words[0]))))
        return (
            "none"
            if mark is None
            else " ".join((str(mark.ctime_ms), str(mark.version), *mark.missing))
        )

    def listed(self, _words: list[str]) -> str:
        """-> the ledgers that are marked."""

        marks = self._store.underreplication.marks()

        async def all_of_them() -> list[str]:
            return [str(mark.ledger_id) async for mark in marks]

        return " ".join(self._done(all_of_them()))

    def clear(self, words: list[str]) -> str:
        """`LEDGER VERSION` -> `true`, or `false` where it was changed."""
        ledger_id, version = LedgerId(int(words[0])), int(words[1])
        is_gone = self._done(self._store.underreplication.clear(ledger_id, version=version))
        return _told(is_gone)

    def lock(self, words: list[str]) -> str:
        """`LEDGER` -> `true`, or `false` where it is taken."""
        ledger_id = LedgerId(int(words[0]))
        return _told(self._done(self._store.underreplication.lock(ledger_id, holder=HOLDER)))

    def unlock(self, words: list[str]) -> None:
        """`LEDGER`."""
        self._done(self._store.underreplication.unlock(LedgerId(int(words[0]))))

    def enable(self, words: list[str]) -> str:
        """`[true|false]` -> what then is."""
        for word in words:
            self._done(self._store.underreplication.set_enabled(word == "true"))
        return _told(self._done(self._store.underreplication.is_enabled()))

    def delay(self, words: list[str]) -> str:
        """`[SECONDS]` -> what then is."""
        for word in words:
            self._done(self._store.underreplication.set_recovery_delay_s(int(word)))
        return str(self._done(self._store.underreplication.recovery_delay_s()))

    @property
    def _store(self) -> MetadataStore:
        if self._opened is None:
            self._opened = self._done(self._metadata.open())
        return self._opened

    def _done(self, asked: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(WAIT_S)


def _told(fact: bool) -> str:
    return str(fact).lower()
