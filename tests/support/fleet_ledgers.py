"""Ledgers on a fake fleet: create, store entries as a writer would, recover, read. Async."""

from collections.abc import Iterable

from bookie.client.reader import LedgerReader, ReaderSettings
from bookie.client.recovery import RecoveryResult, RecoverySettings, recover
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import MetadataStore, Versioned
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.recovery_effects import AcceptedLoss
from bookie.protocol.status import Status
from bookie.testing.fleet import FakeFleet

KEY = master_key(b"")
ONCE = RecoverySettings(attempts=1)


async def no_sleep(_seconds: float) -> None:
    """A pause that takes no time: tests never wait for luck."""


class FleetLedgers:
    """A fleet, a metadata store with one ledger in it, and what tests do with them."""

    def __init__(self, bookies: int) -> None:
        self.fleet = FakeFleet(bookies)
        self.store = MemoryStore()
        self.ledger_id = LedgerId(-1)

    def names(self, *numbers: int) -> tuple[BookieId, ...]:
        return tuple(self.fleet.ids[number] for number in numbers)

    async def create(
        self,
        ensemble: int,
        write: int,
        ack: int,
        *fragments: tuple[int, tuple[int, ...]],
    ) -> LedgerMetadata:
        """An OPEN ledger on bookies 0..E-1, or with these fragments; the fleet is registered."""
        await self.store.initialise()
        await self.fleet.register(self.store)
        self.ledger_id = await self.store.new_ledger_id()
        parts = fragments or ((0, tuple(range(ensemble))),)
        metadata = LedgerMetadata(
            self.ledger_id,
            ensemble,
            write,
            ack,
            tuple(Fragment(EntryId(first), self.names(*on)) for first, on in parts),
        )
        await self.store.create_ledger(metadata)
        return metadata

    def entry(
        self, entry_id: int, *, lac: int | None = None, payload: bytes | None = None
    ) -> bytes:
        codec = EntryCodec(self.ledger_id, DigestType.CRC32C, b"")
        known = EntryId(entry_id - 1 if lac is None else lac)
        body = payload if payload is not None else payload_of(entry_id)
        return codec.encode(EntryId(entry_id), body, lac=known, length=len(body) * (entry_id + 1))

    def put(
        self, entry_ids: int | Iterable[int], *on: int, lac: int | None = None, flags: int = 0
    ) -> list[Status]:
        """Add entries on these bookies, one run each; what each bookie said."""
        ids = [entry_ids] if isinstance(entry_ids, int) else list(entry_ids)
        return [
            self.fleet[number].add_run(KEY, self.frame(entry_id, lac=lac, flags=flags))
            for entry_id in ids
            for number in on
        ]

    def frame(self, entry_id: int, *, lac: int | None = None, flags: int = 0) -> bytes:
        known = EntryId(entry_id - 1 if lac is None else lac)
        entry = self.entry(entry_id, lac=lac)
        return build_run(self.ledger_id, EntryId(entry_id), [entry], lac=known, flags=flags)

    async def metadata(self) -> LedgerMetadata:
        return (await self.store.read_ledger(self.ledger_id)).value

    async def write(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        current = await self.store.read_ledger(self.ledger_id)
        return await self.store.write_ledger(metadata, version=current.version)

    async def recover(
        self,
        *,
        loss: AcceptedLoss | None = None,
        settings: RecoverySettings = ONCE,
        store: MetadataStore | None = None,
    ) -> RecoveryResult:
        """One recovery, by default of one attempt; `store`: the recoverer's own session."""
        return await recover(
            store or self.store,
            self.fleet,
            self.ledger_id,
            accepted_loss=loss,
            settings=settings,
            sleep=no_sleep,
        )

    async def reader(self, *, settings: ReaderSettings | None = None) -> LedgerReader:
        current = await self.store.read_ledger(self.ledger_id)
        return LedgerReader(self.store, self.fleet, current, settings=settings, sleep=no_sleep)

    async def crash(self, *numbers: int, wipe: bool = False, marks: bool = True) -> None:
        """Unclean stop and start again of these bookies: unflushed entries are gone."""
        for number in numbers:
            self.fleet[number].crash(wipe=wipe)
        for number in numbers:
            await self.fleet[number].boot(self.store, marks=marks)

    def held(self, number: int) -> list[EntryId]:
        return self.fleet[number].held(self.ledger_id)


def payload_of(entry_id: int) -> bytes:
    return b"entry %d" % entry_id
