"""The metadata interface: compare-and-set, versions, linearizable reads.

Two stores implement it: `memory` and `zookeeper`; both pass tests/contract/. Every read on which a
safety rule depends is linearizable (ZooKeeper: sync first). Errors: NoSuchLedgerError,
MetadataConflictError (a compare-and-set lost, or a created value exists), UnavailableError (the
store is not reachable; then the outcome of a write is unknown and must be read),
MetadataFormatError (a value has no known format).
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
"""Existing ledgers whose metadata has no known format, each with the error."""


@dataclass(frozen=True, slots=True)
class Versioned(Generic[Value]):
    """A value, and the version that a compare-and-set on it must expect."""

    value: Value
    version: int


@dataclass(frozen=True, slots=True)
class Cookie:
    """The identity of a bookie's disks, as in BookKeeper's cookie (layout 5).

    `ledger_dirs`, `journal_dirs`: in configuration order. `instance_id`: of the cluster.
    """

    bookie_id: BookieId
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    instance_id: str
    index_dirs: tuple[str, ...] = ()
    layout_version: int = 5


@dataclass(frozen=True, slots=True)
class StoredBoot:
    """A bookie's claim: what the store knows of its last boot. The process that serves as this
    bookie keeps it up to date.

    `epoch`: rises with each boot. `served`: the last epoch that came to serve, 0 if none did whose
    stop leaves proof. `nonce`: identifies the process that wrote it. `generation`: rises while the
    bookie writes; no directory of the bookie can have a lower one. `rolled_back`: what showed that
    the store was put back to an earlier state, until a person has dealt with it. `is_bare`: an old
    version wrote it, which stored only the epoch. `lease_s`: how long any process that may answer
    as the bookie goes on without a confirmation, 0 = unknown.
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
    those with `-advertised` are for clients elsewhere. `auth`: the authentication methods, such as
    `tls`.
    """

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
    """The registration of a bookie (BookieServiceInfo)."""

    bookie_id: BookieId
    endpoints: tuple[Endpoint, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False

    @property
    def takes_runs(self) -> bool:
        """True when our own clients can write to it: it is not read-only, and not a bookie of
        Apache's.
        """
        return not self.read_only and self.endpoint(RUN_ENDPOINT) is not None

    @property
    def rack(self) -> str:
        """The network location that it names, such as `/rack-a`."""
        return self.properties.get(RACK_PROPERTY) or DEFAULT_RACK

    @property
    def boot_epoch(self) -> int:
        """The epoch of the boot that registered it; 0 when it names none."""
        named = self.properties.get(BOOT_EPOCH_PROPERTY, "")
        return int(named) if named.isascii() and named.isdigit() and len(named) < 19 else 0

    def first_of(self, endpoint_ids: Iterable[str]) -> Endpoint | None:
        """The endpoint of the first of these ids that it has; None when it has none."""
        found = map(self.endpoint, endpoint_ids)
        return next((endpoint for endpoint in found if endpoint is not None), None)

    def endpoint(self, endpoint_id: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.endpoint_id == endpoint_id:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class UnderreplicationMark:
    """A mark that says that a ledger has lost copies. `missing`: the bookies that had them.

    `missing` may be empty (placement only). `ctime_ms`: when a bookie was last added, in
    milliseconds of the Unix epoch. `version`: clearing the mark must name it.
    """

    ledger_id: LedgerId
    missing: tuple[BookieId, ...]
    ctime_ms: int
    version: int

    def with_missing(self, missing: Iterable[BookieId], *, now_ms: int) -> "UnderreplicationMark":
        """The mark with these bookies added; the same object when it names them all already."""
        added = [bookie for bookie in dict.fromkeys(missing) if bookie not in self.missing]
        if not added:
            return self
        return replace(
            self, missing=(*self.missing, *added), ctime_ms=now_ms, version=self.version + 1
        )


BOOT_EPOCH_PROPERTY: Final = "bootEpoch"
"""Property of a registration with its boot epoch: a registration of an earlier boot of the same
bookie gives way."""

RACK_PROPERTY: Final = "rack"
"""Property of a registration: the bookie's network location; absent = DEFAULT_RACK."""

TLS_AUTH: Final = "tls"
"""Authentication method of an endpoint: connections to it are under TLS, or may be."""
RPC_ENDPOINT: Final = "bookie-rpc"
RUN_ENDPOINT: Final = "bookie-run"
ADMIN_ENDPOINT: Final = "bookie-admin"
RPC_ADVERTISED: Final = "bookie-rpc-advertised"
"""An endpoint with protocol RPC_ENDPOINT. It comes first, as a stock client takes the first
endpoint of the protocol."""
RUN_ADVERTISED: Final = "bookie-run-advertised"
"""An endpoint with protocol RUN_ENDPOINT, for clients with the setting `is_advertised`."""


class Underreplication(Protocol):
    """Marks of under-replicated ledgers, shared with BookKeeper's auditor and workers.

    A mark stays until a client that has seen every copy in place clears it. Locks only avoid double
    work: they end with the session, so no safety may depend on one.
    """

    def marks(self) -> AsyncIterator[UnderreplicationMark]:
        """Iterate over the marks, by rising ledger id; it reads a bounded number at a time.

        A malformed mark is returned without bookies, and logged.
        """

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        """Read a mark, linearizably. MetadataFormatError when it is malformed."""

    async def mark(
        self, ledger_id: LedgerId, missing: Iterable[BookieId], *, now_ms: int
    ) -> UnderreplicationMark:
        """Mark the ledger, or add bookies to its mark; returns the mark. Harmless to repeat."""

    async def clear(self, ledger_id: LedgerId, *, version: int) -> bool:
        """Clear a mark; False when it has changed since `version`: then it stays, look at the
        ledger again.

        The caller must hold the lock: a mark that others clear and set again may have the same
        version.
        """

    async def lock(self, ledger_id: LedgerId, *, holder: str) -> bool:
        """Reserve the ledger's re-replication for this session; False when another session has.

        `holder`: a text for people (Apache: the worker's host).
        """

    async def unlock(self, ledger_id: LedgerId) -> None:
        """Release this session's lock; does nothing to another session's."""

    async def is_enabled(self) -> bool:
        """False while somebody has switched re-replication off (`autorecovery -disable`)."""

    async def set_enabled(self, enabled: bool) -> None: ...

    async def recovery_delay_s(self) -> int | None:
        """How many seconds to wait for a lost bookie (`lostbookierecoverydelay`), None when not
        set.
        """

    async def set_recovery_delay_s(self, seconds: int) -> None: ...


class MetadataStore(Protocol):
    """The operations on the metadata store that bookies, clients, repair and the operator use."""

    async def initialise(self) -> str:
        """Create the cluster unless it exists; returns its instance id. Several
        clients may race.
        """

    async def instance_id(self) -> str | None:
        """The cluster's instance id, None before `initialise`."""

    async def close(self) -> None:
        """End the session, and with it its registrations."""

    async def barrier(self) -> None:
        """Do a write, so that later reads of this session see everything that was written before.

        ZooKeeper's `sync` does not guarantee that: a deposed leader that does not know it yet
        answers a sync too. A write needs a quorum. After UnavailableError nothing is guaranteed.
        """

    # Ledgers
    async def new_ledger_id(self) -> LedgerId:
        """Draw an id that no ledger has or had; ids of one cluster rise."""

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        """Create a ledger; returns the stored value, which has a creation token: go on from this
        value.

        A repeated call with the same token finds its own ledger; otherwise an existing id is a
        conflict.
        """

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        """Linearizable."""

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        """Read the metadata of any number of ledgers, each linearizably; those that do not exist
        are left out.

        Malformed metadata goes into `unreadable`. Without that argument it raises
        MetadataFormatError, since such a ledger must never pass for one that does not exist.
        """

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        """Compare-and-set on `version`."""

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None: ...

    def ledger_ids(self) -> AsyncIterator[LedgerId]:
        """Iterate over every ledger that existed when the iteration began: linearizable, in rising
        order.
        """

    # Bookies
    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        """The registered bookies, writable and read-only."""

    async def register(self, info: BookieInfo) -> None:
        """Register this bookie for as long as the store is open; it is registered again after a
        session loss.

        A call with another `read_only` moves the registration. Another session's registration gives
        way when its BOOT_EPOCH_PROPERTY is lower; otherwise the call waits until it is gone, and
        raises MetadataConflictError when it stays.
        """

    async def unregister(self, bookie_id: BookieId) -> None: ...

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        """Linearizable."""

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]: ...

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]: ...

    async def cookies(self) -> Mapping[BookieId, Cookie]: ...

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        """Read the bookie's claim: what the store knows of its last boot (a znode of our own)."""

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        """Compare-and-set; `version` None creates."""

    @property
    def underreplication(self) -> Underreplication:
        """The marks of under-replicated ledgers of this cluster."""

    # Lists of ledgers (the replicated log) and small facts of our own, by name
    async def read_value(self, name: str) -> Versioned[bytes] | None:
        """Linearizable. Names look like `logs/orders`."""

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        """Compare-and-set; `version` None creates."""

    async def delete_value(self, name: str, *, version: int) -> None: ...
