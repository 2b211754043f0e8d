"""What one running bookie knows of itself: phase, boot record, counters.

Written by the lifecycle and the request handlers in the event loop's thread; read by the control
plane, the probes and the metrics.
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
    """Why adds are refused; the value is what people read, unless `switch_read_only` says more."""

    PERSON = "a person made it read-only"
    DRAIN = "its ledgers are to be moved away"
    DISK_FULL = "too little space"
    LEASE = (
        "the metadata store has not confirmed for long that this process is the bookie; another "
        "may have taken its place"
    )


class Phase(IntEnum):
    """Where the bookie is in its life; the numbers are those of the control plane's proto."""

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
        """The data port is open."""
        return self in _PORTS_OPEN


_WRITABLE: Final = Phase.SERVING
"""Compared at every add: a module's global costs less than a member of an enum."""
_PORTS_OPEN: Final = (_WRITABLE, Phase.READ_ONLY, Phase.DRAINING)


class AuthFailure(Enum):
    """Why a stock connection ended before it was authenticated."""

    CREDENTIALS = "credentials"
    PLUGIN = "plugin"
    PLAIN = "plain"
    SILENCE = "silence"
    CROWD = "crowd"


class CutOff(Enum):
    """Why a connection was refused, or ended for the sake of others."""

    FULL = "full"
    """As many are open as may be."""
    SILENT = "silent"
    """It has never asked anything, and another one wants its place."""
    UNFINISHED = "unfinished"
    """A message was begun long ago, and is not complete."""
    MEMORY = "memory"
    """The same, and requests hold as much memory as they may."""
    HTTP = "http"
    """Of the HTTP port: too many, or without an answer for too long."""


@dataclass(slots=True)
class Traffic:
    """Counters since the process started; bytes are those of whole frames. `connections` and
    `long_polls`: those there are now."""

    runs_added: int = 0
    """Runs of entries that were taken, from either wire."""
    entries_added: int = 0
    """Entries of these."""
    bytes_added: int = 0
    """Bytes of these."""
    reads: int = 0
    """Reads that found something."""
    bytes_read: int = 0
    """Bytes that they found."""
    add_waits: Durations = field(default_factory=Durations)
    """Of adds that wait for a disk, until they may be answered. None in memory mode."""
    read_waits: Durations = field(default_factory=Durations)
    """Of reads, until what they ask for is found."""
    fences: int = 0
    """Fences that requests set."""
    limbo_cleared: int = 0
    """Ledgers that left limbo."""
    reply_bytes: int = 0
    """Of replies to reads that are being read, or that clients have not taken; now."""
    slow_clients: int = 0
    """Connections cut off because replies were left untaken for too long."""
    refused: Counter[Status] = field(default_factory=Counter)
    """Requests that were refused, by why."""
    connections: int = 0
    long_polls: int = 0
    stock_connections: Counter[str] = field(default_factory=Counter)
    """Open connections of stock clients by version of their wire, `v2` or `v3`."""
    garbage: int = 0
    """Connections closed because what came made no sense on the stock wire."""
    tls_connections: Counter[str] = field(default_factory=Counter)
    """Open connections that are under TLS, by port, `stock` or `run`."""
    tls_failures: Counter[str] = field(default_factory=Counter)
    """Connections closed because no handshake came to its end, by port."""
    cut_off: Counter[CutOff] = field(default_factory=Counter)
    """Connections that were refused or ended for the sake of others, by why."""
    unauthenticated: int = 0
    """Open connections of stock clients that may not ask anything yet; now."""
    authentication_failures: Counter[AuthFailure] = field(default_factory=Counter)
    """Connections closed because they were not authenticated, by why."""


@dataclass(slots=True)
class BookieState:
    """The one mutable record of a running bookie."""

    on_change: Callable[[], None] = field(default=lambda: None, kw_only=True)
    """Called after every change of any of these, so that nobody has to know which ones a ruling on
    a request looks at. Counters (`traffic`) are no part of it. First, as `__init__` changes all."""
    bookie_id: str
    """Who this is; it never changes."""
    phase: Phase = Phase.BOOTING
    message: str = ""
    """What people should know beside the phase; empty = nothing."""
    instance_id: str = ""
    """Of the cluster; empty until the boot has ended, as `boot_epoch` is 0."""
    boot_epoch: int = 0
    """Number of this boot; 0 until it is known."""
    epoch_heard: int = 0
    """Highest epoch of this bookie that anybody named."""
    on_newer_epoch: Callable[[], None] = lambda: None
    """Somebody named an epoch above this process's: another process may have booted."""
    metadata_rolled_back: str = ""
    """What shows that the metadata store was put back to an earlier state; empty = nothing."""
    collection_held: str = ""
    """Why the brake of collection waits for a person; empty = it does not."""
    collection_plan: str = ""
    """What that person's approval must name."""
    ledgers_missing: int = 0
    """Held here, and missing in the last look at the metadata store."""
    tombstones: int = 0
    """Collected ledgers, by the last look."""
    traffic: Traffic = field(default_factory=Traffic)
    read_only_reasons: Mapping[ReadOnlyReason, str] = field(default_factory=dict)
    """Why adds are refused now, each with a sentence for people; empty = writable. Replaced, never
    changed, by `switch_read_only` alone."""
    clock: Callable[[], float] = boot_time
    """Seconds of this machine alone; runs on while it sleeps."""
    lease_until: float = math.inf
    """By that clock: until then nobody else answers as this bookie."""
    is_leased: bool = True
    """As of the last `look_at_lease`."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        self.on_change()

    @property
    def is_writable(self) -> bool:
        return self.phase is _WRITABLE and not self.read_only_reasons

    def look_at_lease(self) -> bool:
        """Asked whenever bytes come: a process that slept must not answer as if it had not."""
        if self.is_leased and self.clock() >= self.lease_until:
            self.is_leased = False
            self.switch_read_only(ReadOnlyReason.LEASE, True)
            why = self.read_only_reasons[ReadOnlyReason.LEASE]
            self.message = f"serving what is here, denying nothing: {why}"
            log.warning("%s", self.message)
        return self.is_leased

    def extend_lease(self, until: float) -> None:
        """Confirmed: nobody else answers as this bookie until then."""
        self.lease_until = until
        if not self.is_leased:
            self.is_leased, self.message = True, ""
            self.switch_read_only(ReadOnlyReason.LEASE, False)
            log.info("the metadata store confirmed this bookie again")
        self.look_at_lease()

    @property
    def identity(self) -> Identity:
        """Who this process is; not confirmed before the boot has ended."""
        return Identity(self.instance_id, self.bookie_id, self.boot_epoch)

    def hear_epoch(self, epoch: int) -> None:
        """Somebody names an epoch of this bookie. Above our own it ends the lease, until the
        metadata store has confirmed that it is not true."""
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
        """What people should know of the phase: what went wrong last, or why adds are refused."""
        return self.message or "; ".join(self.read_only_reasons.values())

    def switch_read_only(self, reason: ReadOnlyReason, is_on: bool, words: str = "") -> None:
        """Set or drop one reason to refuse normal adds; `words`: it, as people should read it."""
        reasons = {key: why for key, why in self.read_only_reasons.items() if key != reason}
        if is_on:
            reasons[reason] = words or reason.value
        self.read_only_reasons = reasons
        self.settle_phase()

    def settle_phase(self) -> None:
        """Between the three serving phases, the reasons decide."""
        if not self.phase.serves:
            return
        if self.is_draining:
            self.phase = Phase.DRAINING
        else:
            self.phase = Phase.READ_ONLY if self.read_only_reasons else Phase.SERVING
        self._check()

    def _check(self) -> None:
        """At the end of each change while it serves; in the event loop's thread."""
        assert self.phase.serves and self.is_draining is (self.phase is Phase.DRAINING)
        assert self.is_writable is not bool(self.read_only_reasons)
        assert self.is_leased is (ReadOnlyReason.LEASE not in self.read_only_reasons)
