"""Marks of ledgers, and answers about them, as values that both sides of the control plane use; no
gRPC.
"""

from dataclasses import dataclass

from bookie.ids import LedgerId
from bookie.protocol.clearing import ClearReason


@dataclass(frozen=True, slots=True)
class Mark:
    """One marked ledger of a bookie: in limbo, or only unchecked."""

    ledger_id: LedgerId
    limbo: bool
    boot_epoch: int = 0
    """Epoch of the boot that marked the ledger."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A bookie's answer to a request to clear one ledger.

    `reason`: a value of `ClearReason`, or one that only a newer bookie knows; Unreachable when no
    answer came.
    """

    ledger_id: LedgerId
    cleared: bool
    reason: str
    message: str = ""

    @property
    def is_done(self) -> bool:
        """True when no mark is left on that bookie."""
        return self.cleared or self.reason == ClearReason.NOT_MARKED.value
