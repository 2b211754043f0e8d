"""The metadata interface: compare-and-set, versions, linearizable reads.

Two stores keep it: `memory` and `zookeeper`; both pass tests/contract/. Every read that a safety
rule rests on is linearizable (ZooKeeper: sync first). Errors: NoSuchLedgerError,
MetadataConflictError (compare-and-set lost, or create of what exists), UnavailableError (store not
reachable; the outcome of a write is then unknown and must be re-read), MetadataFormatError (a value
of no known format).
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from bookie.errors import MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import DEFAULT_RACK

Value = TypeVar("Value")

Unreadable = dict[LedgerId, MetadataFormatError]
"""Ledgers that exist and whose metadata is of no known format, each with what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Versioned(Generic[Value]):
    """A value and the version that a compare-and-set on it must name."""

    value: Value
    version: int


@dataclass(frozen=True, slots=True)
class Cookie:
    """Identity of a bookie's disks, in BookKeeper's cookie format (layout 5).

    `ledger_dirs` and `journal_dirs` in configuration order; `instance_id` of the cluster.
    """

    bookie_id: BookieId
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    instance_id: str
    index_dirs: tuple[str, ...] = ()
    layout_version: int = 5


@dataclass(frozen=True, slots=True)
class StoredBoot:
    """What the store knows of a bookie's last boot: whoever serves as this bookie keeps it so.

    `epoch`: rises with each boot. `served`: the last epoch that came to serve, 0 while it was none
    whose end leaves proof. `nonce`: names the process that wrote it. `generation`: rises while it
    writes; no directory of the bookie can be older. `rolled_back`: what it saw of a store that was
    put back to an earlier state, until a person has dealt with it. `is_bare`: written by a version
    that kept the epoch alone. `lease_s`: how long any process that may answer as the bookie goes on
    unconfirmed, 0 = not known.
    """

    epoch: int
    nonce: str = ""
    generation: int = 0
    served: int = 0
    rolled_back: str = ""
    is_bare: bool = False
    lease_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a bookie. Ids: `bookie-rpc` (v2/v3), `bookie-run` (native), `bookie-admin`;
    with `-advertised` those for clients elsewhere. `auth`: what it wants of a client, `tls`."""

    endpoint_id: str
    host: str
    port: int
    protocol: str
    auth: tuple[str, ...] = ()

    @property
    def has_tls(self) -> bool:
        return TLS_AUTH in self.auth


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """What a registered bookie says of itself (BookieServiceInfo)."""

    bookie_id: BookieId
    endpoints: tuple[Endpoint, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False

    @property
    def takes_runs(self) -> bool:
        """Our own clients can write to it: not read-only, and no bookie of Apache's beside ours."""
        return not self.read_only and self.endpoint(RUN_ENDPOINT) is not None

    @property
    def rack(self) -> str:
        """The network location it names, such as `/rack-a`."""
        return self.properties.get(RACK_PROPERTY) or DEFAULT_RACK

    @property
    def boot_epoch(self) -> int:
        """Of the boot that registered it; 0 when it names none."""
        named = self.properties.get(BOOT_EPOCH_PROPERTY, "")
        return int(named) if named.isascii() and named.isdigit() and len(named) < 19 else 0

    def first_of(self, endpoint_ids: Iterable[str]) -> Endpoint | None:
        """Of the first id that it has an endpoint of."""
        found = map(self.endpoint, endpoint_ids)
        return next((endpoint for endpoint in found if endpoint is not None), None)

    def endpoint(self, endpoint_id: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.endpoint_id == endpoint_id:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class UnderreplicationMark:
    """Somebody's word that a ledger has lost copies: `missing` are the bookies they were on.

    `missing` may be empty (placement only). `ctime_ms`: when a bookie was last added to it,
    in milliseconds of the Unix epoch. `version` is what clearing it must name.
    """

    ledger_id: LedgerId
    missing: tuple[BookieId, ...]
    ctime_ms: int
    version: int

    def with_missing(self, missing: Iterable[BookieId], *, now_ms: int) -> "UnderreplicationMark":
        """The mark with these bookies too; the same one when it names them all already."""
        added = [bookie for bookie in dict.fromkeys(missing) if bookie not in self.missing]
        if not added:
            return self
        return replace(
            self, missing=(*self.missing, *added), ctime_ms=now_ms, version=self.version + 1
        )


BOOT_EPOCH_PROPERTY: Final = "bootEpoch"
"""Property of a registration: a left-over one of an earlier boot of the same bookie gives way."""

RACK_PROPERTY: Final = "rack"
"""Property of a registration: the bookie's network location; absent = DEFAULT_RACK."""

TLS_AUTH: Final = "tls"
"""Of an endpoint: connections to it are under TLS, or may be."""
RPC_ENDPOINT: Final = "bookie-rpc"
RUN_ENDPOINT: Final = "bookie-run"
ADMIN_ENDPOINT: Final = "bookie-admin"
RPC_ADVERTISED: Final = "bookie-rpc-advertised"
"""Of protocol RPC_ENDPOINT, and the first: a stock client takes the first one of the protocol."""
RUN_ADVERTISED: Final = "bookie-run-advertised"
"""Of protocol RUN_ENDPOINT; only clients that are asked to use it do."""


class Underreplication(Protocol):
    """Marks of under-replicated ledgers, shared with BookKeeper's auditor and workers.

    A mark stands until someone who has seen every copy in place clears it. Locks only save work
    being done twice: they end with the session, so no safety may rest on one.
    """

    def marks(self) -> AsyncIterator[UnderreplicationMark]:
        """The marks, by rising ledger id, read a bounded number at a time.

        One that cannot be read is given without bookies, and logged."""

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        """Linearizable. MetadataFormatError when it cannot be read."""

    async def mark(
        self, ledger_id: LedgerId, missing: Iterable[BookieId], *, now_ms: int
    ) -> UnderreplicationMark:
        """Marks the ledger, or adds to its mark; what then stands. Harmless to repeat."""

    async def clear(self, ledger_id: LedgerId, *, version: int) -> bool:
        """False when the mark was changed since `version`: it stays, look at the ledger again.

        Hold the lock: a mark that others clear and set again may have the same version."""

    async def lock(self, ledger_id: LedgerId, *, holder: str) -> bool:
        """Reserves the ledger's re-replication for this session; False when it is reserved.

        `holder` is for people to read (Apache: the worker's host)."""

    async def unlock(self, ledger_id: LedgerId) -> None:
        """Gives up this session's lock; nothing happens to another's."""

    async def is_enabled(self) -> bool:
        """False while an operator has switched re-replication off (`autorecovery -disable`)."""

    async def set_enabled(self, enabled: bool) -> None: ...

    async def recovery_delay_s(self) -> int | None:
        """How long a lost bookie is waited for (`lostbookierecoverydelay`), None when not set."""

    async def set_recovery_delay_s(self, seconds: int) -> None: ...


class MetadataStore(Protocol):
    """All that bookies, clients, repair and the operator ask of the metadata store."""

    async def initialise(self) -> str:
        """Create the cluster's layout unless it exists; its instance id. Safe to race."""

    async def instance_id(self) -> str | None:
        """The cluster's instance id, None before `initialise`."""

    async def close(self) -> None:
        """Give up the session; own registrations end."""

    async def barrier(self) -> None:
        """A write of its own: what this session reads afterwards holds all that was written before.

        ZooKeeper's `sync` does not promise it: a leader that was deposed and does not know yet
        answers one, too. A write needs a quorum. UnavailableError: nothing is promised."""

    # Ledgers
    async def new_ledger_id(self) -> LedgerId:
        """An id no ledger has or had; ids of one cluster rise."""

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        """What was stored: with a creation token, so go on from this value.

        Called again with the same token it finds its own; else an existing id is a conflict."""

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        """Linearizable."""

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        """Those of them that exist, any number, each read linearizably.

        One that cannot be read is put into `unreadable`; who hands in none has no answer for it,
        and MetadataFormatError is raised: it must never pass for one that does not exist."""

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        """Compare-and-set on `version`."""

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None: ...

    def ledger_ids(self) -> AsyncIterator[LedgerId]:
        """Every ledger that existed when the iteration began: linearizable, in rising order."""

    # Bookies
    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        """The registered bookies, writable and read-only."""

    async def register(self, info: BookieInfo) -> None:
        """Announce this bookie for as long as the session lives; re-announced after a session loss.

        Called again with `read_only` changed it moves the registration. Another session's
        left-over gives way when its BOOT_EPOCH_PROPERTY is lower, else it is waited out;
        MetadataConflictError when it stays."""

    async def unregister(self, bookie_id: BookieId) -> None: ...

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        """Linearizable."""

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]: ...

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]: ...

    async def cookies(self) -> Mapping[BookieId, Cookie]: ...

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        """What is known of the bookie's last boot, apart from its disks (a znode of our own)."""

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        """Compare-and-set; `version` None creates."""

    @property
    def underreplication(self) -> Underreplication:
        """The cluster's marks of under-replicated ledgers."""

    # Lists of ledgers (the replicated log) and small facts of our own, by name
    async def read_value(self, name: str) -> Versioned[bytes] | None:
        """Linearizable. Names look like `logs/orders`."""

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        """Compare-and-set; `version` None creates."""

    async def delete_value(self, name: str, *, version: int) -> None: ...
