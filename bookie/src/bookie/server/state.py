"""What one running bookie knows of itself: phase, boot record, counters.

Written by the lifecycle and the request handlers in the event loop's thread; read by the control
plane, the probes and the metrics.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from bookie.protocol.status import Status

DRAIN_REASON: Final = "drain"


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
        return self in _SERVING


_WRITABLE: Final = Phase.SERVING
_SERVING: Final = (_WRITABLE, Phase.READ_ONLY, Phase.DRAINING)


@dataclass(slots=True)
class Traffic:
    """Counters since the process started; bytes are those of whole frames. `connections` and
    `long_polls`: those there are now."""

    runs_added: int = 0
    entries_added: int = 0
    bytes_added: int = 0
    reads: int = 0
    bytes_read: int = 0
    fences: int = 0
    limbo_cleared: int = 0
    refused: Counter[Status] = field(default_factory=Counter)
    connections: int = 0
    long_polls: int = 0
    stock_connections: Counter[str] = field(default_factory=Counter)
    """Open connections of stock clients by version of their wire, `v2` or `v3`."""
    garbage: int = 0
    """Connections closed because what came made no sense on the stock wire."""
    tls_connections: int = 0
    """Open connections of stock clients that are under TLS."""
    tls_failures: int = 0
    """Connections closed because a stock client that asked for TLS did not come through."""


@dataclass(slots=True)
class BookieState:
    """The one mutable record of a running bookie."""

    bookie_id: str
    phase: Phase = Phase.BOOTING
    message: str = ""
    instance_id: str = ""
    traffic: Traffic = field(default_factory=Traffic)
    read_only_reasons: set[str] = field(default_factory=set)
    """Why adds are refused now: `person`, `drain`, `disk-full`; empty = writable."""

    @property
    def is_writable(self) -> bool:
        return self.phase is _WRITABLE and not self.read_only_reasons

    @property
    def is_draining(self) -> bool:
        return DRAIN_REASON in self.read_only_reasons

    def switch_read_only(self, reason: str, is_on: bool) -> None:
        """Set or drop one reason to refuse normal adds."""
        (self.read_only_reasons.add if is_on else self.read_only_reasons.discard)(reason)
        self.settle_phase()

    def settle_phase(self) -> None:
        """Between the three serving phases, the reasons decide."""
        if not self.phase.serves:
            return
        if self.is_draining:
            self.phase = Phase.DRAINING
        else:
            self.phase = Phase.READ_ONLY if self.read_only_reasons else Phase.SERVING
