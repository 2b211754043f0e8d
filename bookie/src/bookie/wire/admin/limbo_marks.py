"""Marks of ledgers as both ends of the control plane speak of them: values, without gRPC."""

from dataclasses import dataclass

from bookie.ids import LedgerId
from bookie.protocol.clearing import ClearReason


@dataclass(frozen=True, slots=True)
class Mark:
    """One marked ledger of a bookie: in limbo, or only unchecked."""

    ledger_id: LedgerId
    limbo: bool
    boot_epoch: int = 0
    """Of the boot that marked it."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A bookie's answer to a request to clear one ledger.

    `reason`: a word of `ClearReason`, or of a newer bookie; Unreachable when no answer came.
    """

    ledger_id: LedgerId
    cleared: bool
    reason: str
    message: str = ""

    @property
    def is_done(self) -> bool:
        """True when no mark is left on that bookie."""
        return self.cleared or self.reason == ClearReason.NOT_MARKED.value
