"""All planted bugs, area by area."""

from typing import Final

import mutants_bookie
import mutants_boot
import mutants_bounds
import mutants_budget
import mutants_client
import mutants_collection
import mutants_full_disk
import mutants_identity
import mutants_lasting
import mutants_lease
import mutants_log
import mutants_notes
import mutants_recovery
import mutants_repair
import mutants_unknown
import mutants_ways
import mutants_writers
from mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *mutants_recovery.MUTANTS,
    *mutants_client.MUTANTS,
    *mutants_log.MUTANTS,
    *mutants_boot.MUTANTS,
    *mutants_notes.MUTANTS,
    *mutants_bookie.MUTANTS,
    *mutants_collection.MUTANTS,
    *mutants_full_disk.MUTANTS,
    *mutants_lasting.MUTANTS,
    *mutants_repair.MUTANTS,
    *mutants_unknown.MUTANTS,
    *mutants_identity.MUTANTS,
    *mutants_lease.MUTANTS,
    *mutants_budget.MUTANTS,
    *mutants_bounds.MUTANTS,
    *mutants_ways.MUTANTS,
    *mutants_writers.MUTANTS,
)
