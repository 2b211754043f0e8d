"""All planted bugs, area by area."""

from typing import Final

import mutants_bookie
import mutants_boot
import mutants_client
import mutants_recovery
import mutants_repair
from mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *mutants_recovery.MUTANTS,
    *mutants_client.MUTANTS,
    *mutants_boot.MUTANTS,
    *mutants_bookie.MUTANTS,
    *mutants_repair.MUTANTS,
)
