"""The state of one running bookie: phase, lease, reasons to be read-only, counters.

The lifecycle and the request handlers write it in the event loop's thread; the control plane, the
probes and the metrics read it.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

from bookie.clock import boot_time
from bookie.protocol.status import Status
from bookie.storage.durations import Durations
from bookie.wire.identity import Identity

log = logging.getLogger(__name__)


class ReadOnlyReason(Enum):
    """Why adds are refused. The value is the text for people, unless `switch_read_only` gets
    another one.
    """

    PERSON = "a person made it read-only"
    DRAIN = "its ledgers are to be moved away"
    DISK_FULL = "too little space"
    LEASE = (
        "the metadata store has not confirmed for long that this process is the bookie; another "
        "may have taken its place"
    )


class Phase(IntEnum):
    """The phase of the bookie's life; the numbers are those of the control plane's proto."""

    BOOTING = 1
    MARKING = 2
    AWAITING_APPROVAL = 3
    SERVING = 4
    READ_ONLY = 5
    DRAINING = 6
    STOPPING = 7
    REFUSED = 8

    @property
    def serves(self) -> bool:
        """True when the data ports are open."""
        return self in _PORTS_OPEN


_WRITABLE: Final = Phase.SERVING
"""Compared at every add: a module global costs less than looking up an enum member."""
_PORTS_OPEN: Final = (_WRITABLE, Phase.READ_ONLY, Phase.DRAINING)


class AuthFailure(Enum):
    """Why a stock connection ended before it was authenticated."""

    CREDENTIALS = "credentials"
    PLUGIN = "plugin"
    PLAIN = "plain"
    SILENCE = "silence"
    CROWD = "crowd"


class CutOff(Enum):
    """Why a connection was refused, or cut off for the sake of others."""

    FULL = "full"
    """The maximum number of connections is open."""
    SILENT = "silent"
    """It has never asked anything, and another connection needs its place."""
    UNFINISHED = "unfinished"
    """Its message began long ago and is not complete."""
    MEMORY = "memory"
    """Its message is not complete, and requests hold more memory than they may."""
    HTTP = "http"
    """A connection to the HTTP port: there were too many, or it had no answer for too long."""


@dataclass(slots=True)
class Traffic:
    """Counters since the process started; bytes are those of whole frames. `connections` and
    `long_polls`: how many there are now.
    """

    runs_added: int = 0
    """Runs of entries that the bookie took, from either wire."""
    entries_added: int = 0
    """Entries in these runs."""
    bytes_added: int = 0
    """Bytes of these runs."""
    reads: int = 0
    """Reads that the storage answered."""
    bytes_read: int = 0
    """Bytes of frames that these reads found."""
    add_waits: Durations = field(default_factory=Durations)
    """How long adds waited for a disk until they could be answered; empty in memory mode."""
    read_waits: Durations = field(default_factory=Durations)
    """How long reads took until their entries were found."""
    fences: int = 0
    """Ledgers that a request fenced."""
    limbo_cleared: int = 0
    """Ledgers whose limbo or unchecked mark was cleared."""
    reply_bytes: int = 0
    """Bytes of replies that are being read or that clients have not taken, now."""
    slow_clients: int = 0
    """Connections cut off because their clients left replies untaken for too long."""
    refused: Counter[Status] = field(default_factory=Counter)
    """Refused requests, by status."""
    connections: int = 0
    long_polls: int = 0
    stock_connections: Counter[str] = field(default_factory=Counter)
    """Open connections of stock clients, by version of their wire, `v2` or `v3`."""
    garbage: int = 0
    """Stock connections closed because they sent malformed bytes."""
    tls_connections: Counter[str] = field(default_factory=Counter)
    """Open connections under TLS, by port, `stock` or `run`."""
    tls_failures: Counter[str] = field(default_factory=Counter)
    """Connections closed because their TLS handshake did not succeed, by port."""
    cut_off: Counter[CutOff] = field(default_factory=Counter)
    """Connections that were refused, or cut off for the sake of others, by reason."""
    unauthenticated: int = 0
    """Open connections of stock clients that are not authenticated yet, now."""
    authentication_failures: Counter[AuthFailure] = field(default_factory=Counter)
    """Stock connections closed because they were not authenticated, by reason."""


@dataclass(slots=True)
class BookieState:
    """The one mutable record of a running bookie."""

    on_change: Callable[[], None] = field(default=lambda: None, kw_only=True)
    """Called after every change of a field, so that no code has to know which fields a ruling uses.
    Counters (`traffic`) do not count. It is the first field, as `__init__` sets all others."""
    bookie_id: str
    """The id of this bookie; it never changes."""
    phase: Phase = Phase.BOOTING
    message: str = ""
    """A sentence for people beside the phase; empty = none."""
    instance_id: str = ""
    """The cluster's instance id; empty until the boot has finished."""
    boot_epoch: int = 0
    """The epoch of this boot; 0 until the boot has finished."""
    epoch_heard: int = 0
    """The highest epoch of this bookie that a client or caller has named."""
    on_newer_epoch: Callable[[], None] = lambda: None
    """Called when a client or caller names an epoch above this process's: another process may have
    booted."""
    metadata_rolled_back: str = ""
    """What shows that the metadata store was put back to an earlier state; empty = nothing does."""
    collection_held: str = ""
    """Why the collection waits for a person's approval; empty = it does not."""
    collection_plan: str = ""
    """The id of the plan that the approval must name."""
    ledgers_missing: int = 0
    """How many ledgers this bookie holds that the last look at the metadata store lacked."""
    tombstones: int = 0
    """How many tombstones there were at the last look."""
    traffic: Traffic = field(default_factory=Traffic)
    read_only_reasons: Mapping[ReadOnlyReason, str] = field(default_factory=dict)
    """Why adds are refused now, each with a sentence for people; empty = writable. Only
    `switch_read_only` changes it, by replacing the mapping."""
    clock: Callable[[], float] = boot_time
    """A clock of this machine, in seconds, that keeps running while the machine sleeps."""
    lease_until: float = math.inf
    """Until then, by that clock, no other process answers as this bookie."""
    is_leased: bool = True
    """Whether the lease held at the last `look_at_lease`."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        self.on_change()

    @property
    def is_writable(self) -> bool:
        return self.phase is _WRITABLE and not self.read_only_reasons

    def look_at_lease(self) -> bool:
        """Check the lease; called whenever bytes arrive, as the process may have slept. Returns
        whether the lease holds.
        """
        if self.is_leased and self.clock() >= self.lease_until:
            self.is_leased = False
            self.switch_read_only(ReadOnlyReason.LEASE, True)
            why = self.read_only_reasons[ReadOnlyReason.LEASE]
            self.message = f"serving what is here, denying nothing: {why}"
            log.warning("%s", self.message)
        return self.is_leased

    def extend_lease(self, until: float) -> None:
        """Prolong the lease: no other process answers as this bookie until then."""
        self.lease_until = until
        if not self.is_leased:
            self.is_leased, self.message = True, ""
            self.switch_read_only(ReadOnlyReason.LEASE, False)
            log.info("the metadata store confirmed this bookie again")
        self.look_at_lease()

    @property
    def identity(self) -> Identity:
        """The identity of this process; complete once the boot has finished."""
        return Identity(self.instance_id, self.bookie_id, self.boot_epoch)

    def hear_epoch(self, epoch: int) -> None:
        """Note an epoch of this bookie that a client or caller has named. If it is above our own it
        ends the lease, until the metadata store has confirmed our claim.
        """
        if epoch > max(self.boot_epoch, self.epoch_heard):
            self.epoch_heard = epoch
            self.lease_until = self.clock()
            self.look_at_lease()
            self.on_newer_epoch()

    @property
    def is_draining(self) -> bool:
        return ReadOnlyReason.DRAIN in self.read_only_reasons

    @property
    def explanation(self) -> str:
        """A sentence for people about the phase: what went wrong last, or why adds are refused."""
        return self.message or "; ".join(self.read_only_reasons.values())

    def switch_read_only(self, reason: ReadOnlyReason, is_on: bool, words: str = "") -> None:
        """Set or remove one reason to refuse normal adds; `words`: the text of the reason for
        people.
        """
        reasons = {key: why for key, why in self.read_only_reasons.items() if key != reason}
        if is_on:
            reasons[reason] = words or reason.value
        self.read_only_reasons = reasons
        self.settle_phase()

    def settle_phase(self) -> None:
        """Set the phase among the three serving ones, according to the reasons."""
        if not self.phase.serves:
            return
        if self.is_draining:
            self.phase = Phase.DRAINING
        else:
            self.phase = Phase.READ_ONLY if self.read_only_reasons else Phase.SERVING
        self._check()

    def _check(self) -> None:
        """Assert the invariants at the end of each change while the bookie serves; in the event
        loop's thread.
        """
        assert self.phase.serves and self.is_draining is (self.phase is Phase.DRAINING)
        assert self.is_writable is not bool(self.read_only_reasons)
        assert self.is_leased is (ReadOnlyReason.LEASE not in self.read_only_reasons)
