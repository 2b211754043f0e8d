"""A cluster in memory for audit and repair: metadata, bookies, control planes, ledgers to hurt."""

from collections.abc import Collection, Iterable

from bookie.client.recovery import RecoverySettings
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.testing.control import FakeControl
from bookie.testing.fleet import FakeFleet
from bookie.testing.metadata import FaultyStore

PASSWORD = b"secret"
AUDIT = AuditSettings(grace_s=0.0, recheck_s=None)
SETTINGS = RepairSettings(audit=AUDIT, writer_grace_s=0)


def payload(entry_id: int) -> bytes:
    return b"entry %d" % entry_id


class RepairLab:
    """`bookies` of them, all registered; ledgers are written past the client, entry by entry."""

    def __init__(self, bookies: int = 4, *, store: MetadataStore | None = None) -> None:
        self.fleet = FakeFleet(bookies)
        self.store = store or MemoryStore()
        self.control = FakeControl(self.fleet, self.store)
        recovery = RecoverySettings(attempts=1)
        self.cluster = Cluster(self.store, self.fleet, self.control, recovery)

    async def start(self) -> "RepairLab":
        await self.store.initialise()
        await self.fleet.register(self.store)
        return self

    @property
    def ids(self) -> list[BookieId]:
        return self.fleet.ids

    async def ledger(
        self,
        *fragments: tuple[int, tuple[int, ...]],
        write: int = 3,
        ack: int = 2,
        last: int | None = None,
        entries: int = 0,
        flush: bool = True,
    ) -> LedgerMetadata:
        """A ledger with `entries` everywhere they belong; CLOSED at `last` unless None."""
        parts = fragments or ((0, (0, 1, 2)),)
        metadata = LedgerMetadata(
            ledger_id=await self.store.new_ledger_id(),
            ensemble_size=len(parts[0][1]),
            write_quorum=write,
            ack_quorum=ack,
            fragments=tuple(
                Fragment(EntryId(first), tuple(self.ids[n] for n in numbers))
                for first, numbers in parts
            ),
            password=PASSWORD,
            state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
            last_entry_id=NO_ENTRY if last is None else EntryId(last),
        )
        await self.store.create_ledger(metadata)
        self.write(metadata, range(entries))
        if flush:
            self.flush()
        return metadata

    def write(
        self,
        metadata: LedgerMetadata,
        entry_ids: Iterable[int],
        *,
        on: Collection[int] | None = None,
        lac: int | None = None,
    ) -> None:
        """Put entries on their write sets, or on bookies `on` only; by default acked in order."""
        for entry_id in map(EntryId, entry_ids):
            ensemble = metadata.fragment_of(entry_id).ensemble
            for bookie_id in write_set(
                entry_id, ensemble=ensemble, write_quorum=metadata.write_quorum
            ):
                if on is None or self.ids.index(bookie_id) in on:
                    self._put(metadata, bookie_id, entry_id, lac)

    def _put(
        self, metadata: LedgerMetadata, bookie_id: BookieId, entry_id: EntryId, lac: int | None
    ) -> None:
        codec = EntryCodec(metadata.ledger_id, DigestType.CRC32C, PASSWORD)
        known = EntryId(entry_id - 1 if lac is None else lac)
        body = codec.encode(entry_id, payload(entry_id), lac=known, length=entry_id + 1)
        frame = build_run(metadata.ledger_id, entry_id, [body], lac=known, flags=FLAG_RECOVERY)
        status = self.fleet[bookie_id].add_run(master_key(PASSWORD), frame)
        assert status is Status.OK

    def garble(self, ledger_id: LedgerId) -> None:
        """From now on nobody can read the ledger's metadata."""
        store = self.store.inner if isinstance(self.store, FaultyStore) else self.store
        assert isinstance(store, MemoryStore)
        store.cluster.garbled.add(ledger_id)

    def flush(self) -> None:
        for bookie in self.fleet.bookies.values():
            bookie.flush()

    async def crash(self, *numbers: int, wipe: bool = False) -> None:
        """Kill bookies uncleanly, all at once, and boot them again with their marks."""
        for number in numbers:
            self.fleet[number].crash(wipe=wipe)
        for number in numbers:
            await self.fleet[number].boot(self.store)

    async def moves_on(self, ledger_id: LedgerId, first: int, *numbers: int) -> None:
        """The ledger's writer begins a fragment on these bookies."""
        found = await self.store.read_ledger(ledger_id)
        fragment = Fragment(EntryId(first), tuple(self.ids[number] for number in numbers))
        changed = found.value.with_fragments((*found.value.fragments, fragment))
        await self.store.write_ledger(changed, version=found.version)

    async def marks(self) -> int:
        """How many marks all bookies have."""
        found = [await self.control.list_marks(bookie_id) for bookie_id in self.ids]
        return sum(len(one.marks) for one in found)

    def held(self, number: int, ledger_id: LedgerId) -> list[EntryId]:
        return self.fleet[number].held(ledger_id)

    async def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        return (await self.store.read_ledger(ledger_id)).value
