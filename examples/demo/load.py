"""The writers: busy logs that never pause, and quiet logs whose ledgers lie open and idle.

Each acknowledged entry is remembered by its position and the piece of input it holds. A writer that
meets a fence takes its log over again and appends once more what it has no answer for.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.client.bookkeeper_client import Client
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import LogPosition
from bookie.errors import BookieError, LedgerFencedError
from bookie.metadata.store import MetadataStore
from source import Input, Piece

BUSY_LOGS = 4
QUIET_LOGS = 8
BATCH_ENTRIES = 32
PAUSE_S = 0.2
"""Between batches: the story needs a steady stream, not the highest rate."""
QUIET_ENTRIES = 40
LEDGER_BYTES = 3 * 1024 * 1024
"""A busy log begins a new ledger after so much, so that many are closed by the end."""


@dataclass(slots=True)
class Tally:
    """What was acknowledged, over all logs."""

    entries: int = 0
    bytes: int = 0
    reopened: int = 0
    positions: dict[str, dict[LogPosition, Piece]] = field(default_factory=dict)

    def acked(self, log: str, position: LogPosition, piece: Piece) -> None:
        self.positions.setdefault(log, {})[position] = piece
        self.entries += 1
        self.bytes += piece.length

    @property
    def ledgers(self) -> int:
        """Ledgers with at least one acknowledged entry."""
        return len({p.ledger_id for positions in self.positions.values() for p in positions})


class Stream:
    """One log and its writer."""

    def __init__(self, log: ReplicatedLog, pieces: Iterator[tuple[Piece, bytes]], tally: Tally):
        self._log = log
        self._pieces = pieces
        self._tally = tally

    @property
    def name(self) -> str:
        return self._log.name

    async def append(self, count: int) -> None:
        """Append the next pieces; all are acknowledged, in the log as it is owned, at the end."""
        waiting = [next(self._pieces) for _ in range(count)]
        while waiting:
            waiting = await self._try(waiting)
            if waiting:
                await self._take_over()

    async def _try(self, pieces: list[tuple[Piece, bytes]]) -> list[tuple[Piece, bytes]]:
        """Those without an acknowledgement; LedgerFencedError is what they wait for an owner by."""
        futures = []
        for _piece, payload in pieces:
            await self._log.room()
            futures.append(self._log.append(payload))
        answers = await asyncio.gather(*futures, return_exceptions=True)
        unanswered = []
        for (piece, payload), answer in zip(pieces, answers, strict=True):
            if isinstance(answer, LogPosition):
                self._tally.acked(self._log.name, answer, piece)
            elif isinstance(answer, LedgerFencedError):
                unanswered.append((piece, payload))
            else:
                raise answer
        return unanswered

    async def _take_over(self) -> None:
        self._tally.reopened += 1
        self._log = await self._log.reopen()

    async def close(self) -> None:
        await self._log.close()


class Load:
    """All writers of the demo."""

    def __init__(self, source: Input, store: MetadataStore, client: Client) -> None:
        self._source = source
        self._store = store
        self._client = client
        self._busy: list[Stream] = []
        self._quiet: list[Stream] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.tally = Tally()

    async def start(self) -> None:
        pieces = self._source.pieces()
        settings = LogSettings(roll_bytes=LEDGER_BYTES)
        for number in range(BUSY_LOGS):
            self._busy.append(await self._open(f"busy-{number}", pieces, settings))
        for number in range(QUIET_LOGS):
            self._quiet.append(await self._open(f"quiet-{number}", pieces, settings))
        self._tasks = [asyncio.create_task(self._write(stream)) for stream in self._busy]

    async def _open(
        self, name: str, pieces: Iterator[tuple[Piece, bytes]], settings: LogSettings
    ) -> Stream:
        log = await ReplicatedLog.open(
            name, ledgers=self._client, store=self._store, settings=settings
        )
        return Stream(log, pieces, self.tally)

    async def _write(self, stream: Stream) -> None:
        while not self._stopping:
            await stream.append(BATCH_ENTRIES)
            await asyncio.sleep(PAUSE_S)

    async def touch_quiet(self) -> None:
        """A few entries into each quiet ledger, which then lies open until the next touch."""
        await asyncio.gather(*(stream.append(QUIET_ENTRIES) for stream in self._quiet))

    def check(self) -> None:
        """A writer that failed fails the demo, at once and with its reason."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise SystemExit(f"a writer failed: {task.exception()!r}")

    async def stop(self) -> None:
        """End the writers and close their logs."""
        self._stopping = True
        await asyncio.gather(*self._tasks)
        for stream in (*self._busy, *self._quiet):
            await self._close(stream)

    async def _close(self, stream: Stream) -> None:
        try:
            await stream.close()
        except LedgerFencedError:
            # Fenced while it lay idle: take it over, which recovers the old ledger, and close that.
            await stream.append(1)
            await stream.close()
        except BookieError as error:
            raise SystemExit(f"cannot close {stream.name}: {error}") from error
