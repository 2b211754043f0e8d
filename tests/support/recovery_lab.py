"""Plays one recovery core against in-memory bookies, message by message, in any order. No loop."""

from collections.abc import Callable, Sequence

from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.end_search import READ_WINDOW_ENTRIES
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.recovery import Recovery
from bookie.protocol.recovery_effects import (
    Abort,
    Effect,
    FenceLac,
    ReadEntries,
    Recovered,
    WriteMetadata,
)
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace
from bookie.testing.fake_bookie import FakeBookie
from bookie.wire.native import LacRequest, ReadRequest

LEDGER = LedgerId(7)
KEY = master_key(b"")
CODEC = EntryCodec(LEDGER, DigestType.CRC32C, b"")
PAYLOAD = b"payload"
STEPS_MAX = 10_000

Pick = Callable[[Sequence[Effect]], int]


def names(*numbers: int) -> tuple[BookieId, ...]:
    return tuple(BookieId(f"bookie-{number}") for number in numbers)


def ledger(
    ensemble: int, write: int, ack: int, *fragments: tuple[int, tuple[int, ...]]
) -> LedgerMetadata:
    parts = fragments or ((0, tuple(range(ensemble))),)
    return LedgerMetadata(
        LEDGER, ensemble, write, ack, tuple(Fragment(EntryId(f), names(*e)) for f, e in parts)
    )


def entry(entry_id: int, *, lac: int | None = None, payload: bytes = PAYLOAD) -> bytes:
    """As a writer builds it; by default everything below it is acknowledged."""
    known = EntryId(entry_id - 1 if lac is None else lac)
    return CODEC.encode(EntryId(entry_id), payload, lac=known, length=len(payload) * (entry_id + 1))


def first(_effects: Sequence[Effect]) -> int:
    return 0


class RecoveryLab:
    """Bookies, one metadata value, and the answers on their way."""

    def __init__(self, metadata: LedgerMetadata, *, spares: Sequence[int] = ()) -> None:
        ids = {b for fragment in metadata.fragments for b in fragment.ensemble}
        self.spares = list(names(*spares))
        self.bookies = {b: FakeBookie(b) for b in (*sorted(ids), *self.spares)}
        self.metadata, self.version = metadata, 0
        self.sent: list[Effect] = []
        self.reply_bytes = 1 << 20
        """What a reply to a read has room for; it ends where the next entry finds none."""

    def __getitem__(self, number: int) -> FakeBookie:
        return self.bookies[names(number)[0]]

    def put(self, entry_id: int, *on: int, lac: int | None = None) -> None:
        """Store one entry on these bookies, as a writer's add does."""
        known = EntryId(entry_id - 1 if lac is None else lac)
        frame = build_run(LEDGER, EntryId(entry_id), [entry(entry_id, lac=lac)], lac=known)
        for number in on:
            assert self[number].add_run(KEY, frame) is Status.OK

    def recovery(self, *, window: int = READ_WINDOW_ENTRIES) -> Recovery:
        return Recovery(self.metadata, self.version, window=window)

    def run(self, recovery: Recovery, pick: Pick = first) -> Recovered | Abort | None:
        """Until it ends, or nothing is left to answer (None)."""
        waiting = recovery.start()
        for _ in range(STEPS_MAX):
            if not waiting:
                return None
            ended = next((e for e in waiting if isinstance(e, Recovered | Abort)), None)
            if ended is not None:
                return ended
            effect = waiting.pop(pick(waiting))
            self.sent.append(effect)
            waiting += self.answer(recovery, effect)
        raise AssertionError("recovery does not end")

    def answer(self, recovery: Recovery, effect: Effect) -> list[Effect]:
        if isinstance(effect, WriteMetadata):
            return self._write_metadata(recovery, effect)
        if isinstance(effect, Replace):
            spare = next((s for s in self.spares if s not in effect.exclude), None)
            return recovery.on_replacement(effect.position, spare)
        assert isinstance(effect, FenceLac | ReadEntries | AddRun)
        bookie = self.bookies[effect.bookie_id]
        if isinstance(effect, FenceLac):
            if bookie.down:
                return recovery.on_lac(effect.op, Status.UNREACHABLE, NO_ENTRY)
            status, lac = bookie.read_lac(LacRequest(LEDGER, KEY), fence=True)
            return recovery.on_lac(effect.op, status, lac.lac if lac is not None else NO_ENTRY)
        if isinstance(effect, ReadEntries):
            if bookie.down:
                return recovery.on_read(effect.op, Status.UNREACHABLE, None)
            request = ReadRequest(LEDGER, effect.first, effect.last, self.reply_bytes, KEY)
            return recovery.on_read(effect.op, *bookie.read(request, fence=effect.fence))
        status = Status.UNREACHABLE if bookie.down else bookie.add_run(KEY, effect.frame)
        return recovery.on_added(effect.op, status)

    def _write_metadata(self, recovery: Recovery, effect: WriteMetadata) -> list[Effect]:
        if effect.version != self.version:
            return recovery.on_metadata_conflict(self.metadata, self.version)
        self.metadata, self.version = effect.metadata, self.version + 1
        return recovery.on_metadata_written(self.metadata, self.version)
