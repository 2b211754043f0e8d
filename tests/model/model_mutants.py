"""Broken rules, and what the model must say of each: a violation, stuck states, or nothing.

The numbers are those of docs/protocol-rules.md. The first block is the table of the study that this
project rests on, the second has more rules of the product. A mutant that the model cannot see names
the directed test that catches it, and why a second barrier hides it here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from model_ledger import (
    DIRTY_READ,
    REOPENED,
    SAFETY,
    TOO_FEW_COPIES,
    TRUNCATED,
    VOUCHED_LOST,
    LedgerModel,
    Start,
)
from model_rules import BootFence, Bounds, ClearWhen, HeldBy, Rules
from model_search import Found, Search
from model_story import Move, follow

STUCK = "no CLOSED state can be reached, within the budget"
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Case:
    """One exploration that must end with nothing found; `start`: moves from which it begins."""

    name: str
    bounds: Bounds
    rules: Rules = field(default_factory=Rules)
    start: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule. `start`: moves from which the search begins; `directed`: tests that catch
    what this model does not.
    """

    name: str
    breaks: str
    rules: Rules
    expects: str
    bounds: Bounds = field(default_factory=Bounds)
    start: tuple[Move, ...] = ()
    directed: tuple[str, ...] = ()

    def model(self) -> LedgerModel:
        return LedgerModel(self.bounds, self.rules, begin(self.bounds, self.rules, self.start))

    def run(self) -> tuple[LedgerModel, Found]:
        """Looks for what is expected only: another property may be hurt on the way there."""
        wanted = SAFETY if self.expects in (NOTHING, STUCK) else (self.expects,)
        model = self.model()
        return model, Search(model, properties=wanted, liveness=self.expects == STUCK).run()

    def is_as_expected(self, found: Found) -> bool:
        if self.expects == STUCK:
            return found.is_complete and found.stuck > 0
        if self.expects == NOTHING:
            return found.is_complete and not found.violation
        return found.violation == self.expects


def begin(bounds: Bounds, rules: Rules, moves: Sequence[Move]) -> Start | None:
    """A start that some moves lead to; the model has them, or the start makes no sense."""
    if not moves:
        return None
    model = LedgerModel(bounds, rules)
    here = model.initial()
    for move in moves:
        after = follow(model, here, move)
        assert after is not None, f"the model has no move {move} here"
        here = after
    return model.look(here)


def each(verb: str, *positions: int, entry: int = -1) -> tuple[Move, ...]:
    """The same move at several bookies."""
    return tuple((verb, at, entry) for at in positions)


E0_ACKED: tuple[Move, ...] = (
    ("adds", -1, 0),
    *each("stores", 0, 1, entry=0),
    *each("hears_ok", 0, 1, entry=0),
    ("adds", -1, 1),
)
NO_CRASH = Bounds(crashes=0)
TWO_ENTRIES = Bounds(entries=2, crashes=0)
CHOOSES_UNCLEAN = Bounds(write_quorum=2, crashes=2, spares=1, writer_changes=1, retries=True)
"""One crash for a bookie that the writer chooses later, one for a member that a recovery needs."""
ONE_SPARE = Bounds(crashes=0, spares=1, writer_changes=1)
NOTHING_LEFT = replace(Rules(), boot_fence=BootFence.NONE, fence_durable=False)

FINDS_NOTHING = (
    ("starts", -1, -1),
    *each("fences", 0, 1),
    *each("hears_fence", 0, 1),
    *each("reads", 0, 1),
    *each("hears_read", 0, 1),
)
"""R1 hears B0 and B1 and is about to close the ledger empty."""
ONLY_ON_B2 = (("adds", -1, 0), ("stores", 2, 0))
CHOSEN_AFTER_ITS_BOOT = (
    *each("stops", 2),
    ("adds", -1, 0),
    ("replaces", 1, -1),
    ("changes", -1, -1),
    *each("stops", 0),
    ("starts", -1, -1),
)
"""W chose B2, which had booted unclean; B0 is in limbo: the recovery needs what B2 has to say."""
BACK_AS_REPLACEMENT = (
    ("adds", -1, 0),
    *each("stores", 0, 1, 2, entry=0),
    *each("hears_ok", 0, 1, entry=0),
    ("adds", -1, 1),
    ("stores", 1, 1),
    ("replaces", 0, -1),
    ("changes", -1, -1),
    ("starts", -1, -1),
    *each("fences", 1, 2),
    *each("hears_fence", 1, 2),
    *each("reads", 1, 2),
    *each("hears_read", 1, 2),
    ("replaces_local", 3, -1),
)
"""W put B3 in the place of B0 from e1 on; R finds e1 on B1 and takes B0 for B3 again, locally."""
CLOSED_AT_E0 = (
    ("adds", -1, 0),
    *each("stores", 0, 1, entry=0),
    *each("hears_ok", 0, 1, entry=0),
    ("closes_own", -1, 0),
)

PUBLISHED = (
    Mutant("reads-do-not-fence", "R9", Rules(reads_fence=False), TRUNCATED, NO_CRASH),
    Mutant(
        "fence-open-only",
        "R24: only ledgers that are not closed; fences in memory",
        Rules(boot_fence=BootFence.NOT_CLOSED, fence_durable=False),
        TRUNCATED,
    ),
    Mutant("no-boot-fence", "R24: and fences in memory", NOTHING_LEFT, TRUNCATED),
    Mutant("no-limbo", "R25", Rules(limbo=False), TRUNCATED),
    Mutant(
        "limbo-cleared-at-boot",
        "R27",
        Rules(clear_when=ClearWhen.ANY, clear_needs_copies=False),
        TRUNCATED,
    ),
    Mutant(
        "limbo-cleared-in-recovery",
        "R27",
        Rules(clear_when=ClearWhen.IN_RECOVERY, clear_needs_copies=False),
        TRUNCATED,
    ),
    Mutant("boot-not-awaited", "R23, fences durable", Rules(boot_awaited=False), TRUNCATED),
    Mutant("unknown-is-denial", "R7", Rules(unknown_denies=True), TRUNCATED),
    Mutant("one-denial-is-enough", "R4", Rules(denials_needed=1), TRUNCATED),
    Mutant("no-write-back", "R13", Rules(writes_back=False), TOO_FEW_COPIES, NO_CRASH),
    Mutant(
        "lac-advances-in-recovery-adds",
        "R16",
        Rules(lac_frozen=False),
        DIRTY_READ,
        Bounds(entries=2, crashes=0, recoverers=2, reader=True),
        start=(*ONLY_ON_B2, ("adds", -1, 1), ("stores", 2, 1), *FINDS_NOTHING),
    ),
    Mutant("closed-is-reopened", "R18", Rules(closed_is_terminal=False), REOPENED),
    Mutant(
        "closed-is-reopened-and-denied",
        "R18, R25: and closed ledgers are not unchecked",
        Rules(closed_is_terminal=False, unchecked=False),
        TRUNCATED,
        start=CLOSED_AT_E0,
    ),
    Mutant("ack-quorum-of-copies", "R4", Rules(copies_needed=2), STUCK),
    Mutant(
        "fence-threshold-1",
        "R1: hidden by reads that fence (R6)",
        Rules(fence_threshold=1),
        NOTHING,
        directed=(
            "tests/bookie/protocol/test_quorum.py"
            "::test_a_fence_covers_exactly_when_no_entry_can_be_acked_any_more",
            "tests/bookie/protocol/test_recovery.py::test_too_few_fence_answers_abort",
            "tests/scenarios/test_fencing.py"
            "::test_s06_two_fences_that_leave_a_write_set_free_are_not_enough",
        ),
    ),
)

OTHERS = (
    Mutant(
        "fence-threshold-1-reads-do-not-fence",
        "R1, R9",
        Rules(fence_threshold=1, reads_fence=False),
        TRUNCATED,
        NO_CRASH,
    ),
    Mutant("marker-lost", "R22: unsynced, or cleared early", Rules(marker_holds=False), TRUNCATED),
    Mutant(
        "cleared-before-copies-are-synced",
        "R28",
        Rules(clear_after_sync=False),
        VOUCHED_LOST,
        Bounds(crashes=2),
    ),
    Mutant("cleared-without-copies", "R27", Rules(clear_needs_copies=False), TOO_FEW_COPIES),
    Mutant("closed-not-unchecked", "R27", Rules(unchecked=False), TOO_FEW_COPIES),
    Mutant(
        "io-error-is-denial",
        "R10",
        Rules(denies_on_io_error=True),
        TRUNCATED,
        Bounds(crashes=0, io_errors=True),
    ),
    Mutant(
        "fence-told-before-durable",
        "R9",
        Rules(fence_durable=False),
        TRUNCATED,
    ),
    Mutant(
        "fence-told-before-durable-whole-boundary",
        "R9: hidden by a boundary after every unclean stop",
        Rules(fence_durable=False, boot_fence=BootFence.ALL),
        NOTHING,
        directed=(
            "tests/scenarios/test_fencing.py::test_s44_a_fence_that_is_not_durable_does_not_count",
            "tests/scenarios/test_boot_served.py"
            "::test_s44_whatever_a_power_cut_leaves_a_fence_that_was_told_is_there",
        ),
    ),
    Mutant(
        "no-boundary",
        "R24: hidden by durable fences",
        Rules(boot_fence=BootFence.NONE),
        NOTHING,
        directed=(
            "tests/scenarios/test_fencing.py::test_s01_an_add_after_the_close_is_never_acked",
        ),
    ),
    Mutant(
        "no-boundary-disks-lost",
        "R24",
        Rules(boot_fence=BootFence.NONE),
        TRUNCATED,
        Bounds(disk_loss=True),
    ),
    Mutant(
        "boundary-without-deleted",
        "R24 (S40)",
        Rules(boot_fence=BootFence.EXISTING),
        TRUNCATED,
        Bounds(disk_loss=True, delete=True),
    ),
    Mutant(
        "no-tombstone",
        "R24 (#4462)",
        Rules(tombstones=False),
        TRUNCATED,
        Bounds(crashes=0, delete=True),
    ),
    Mutant("stale-listing-at-boot", "R23 (S38)", Rules(boot_reads_fresh=False), TRUNCATED),
    Mutant(
        "closes-without-state-check",
        "R14, R15 (S11)",
        Rules(close_checks_state=False),
        REOPENED,
        Bounds(crashes=0, recoverers=2),
        start=(*ONLY_ON_B2, *FINDS_NOTHING),
    ),
    Mutant(
        "writer-closes-blindly", "R21 (S15)", Rules(close_checks_version=False), REOPENED, NO_CRASH
    ),
    Mutant("acks-too-early", "R3", Rules(acks_needed=1), TRUNCATED, NO_CRASH),
    Mutant(
        "closes-before-write-backs",
        "R14 (S14)",
        Rules(waits_for_write_backs=False),
        TOO_FEW_COPIES,
        NO_CRASH,
    ),
    Mutant(
        "starts-at-lac",
        "R12 (S5)",
        Rules(starts_at_last_fragment=False),
        TRUNCATED,
        replace(TWO_ENTRIES, spares=1, writer_changes=1),
        start=E0_ACKED,
    ),
    Mutant(
        "acks-of-replaced-count", "R20 (S18)", Rules(unacks_replaced=False), TRUNCATED, ONE_SPARE
    ),
    Mutant(
        "acks-while-changing",
        "R20 (#4097)",
        Rules(frozen_while_changing=False),
        TRUNCATED,
        ONE_SPARE,
    ),
    Mutant(
        "ensemble-used-uncommitted",
        "R20 (S17)",
        Rules(commits_before_use=False, frozen_while_changing=False),
        TRUNCATED,
        ONE_SPARE,
    ),
    Mutant(
        "ensemble-change-retried-blindly",
        "R20 (S21)",
        Rules(change_checks_version=False),
        TRUNCATED,
        ONE_SPARE,
    ),
    Mutant(
        "recovery-commits-changes-at-once",
        "R14 (S13)",
        Rules(changes_kept_local=False),
        TRUNCATED,
        Bounds(write_quorum=2, crashes=0, spares=1, attempts=2, recovery_changes=1),
    ),
    Mutant(
        "unchecked-cleared-in-recovery",
        "R28 (S37)",
        Rules(unchecked_held_by=HeldBy.NONE),
        TOO_FEW_COPIES,
        Bounds(entries=2, spares=1, writer_changes=1, recovery_changes=1),
        start=BACK_AS_REPLACEMENT,
    ),
    Mutant(
        "boundary-lifted-in-recovery",
        "R28 (S37)",
        Rules(unchecked_held_by=HeldBy.NONE),
        TOO_FEW_COPIES,
        Bounds(write_quorum=2, spares=1, recovery_changes=1),
    ),
    Mutant(
        "unchecked-waits-for-every-recovery",
        "R28: also for one that waits for this bookie",
        Rules(unchecked_held_by=HeldBy.EVERY),
        STUCK,
        CHOOSES_UNCLEAN,
    ),
    Mutant(
        "clean-boot-looks-again",
        "R28: a recovery that waits for this bookie may be under way by then",
        Rules(unchecked_held_by=HeldBy.LAST_BOOT),
        STUCK,
        replace(CHOOSES_UNCLEAN, restarts=1),
        start=CHOSEN_AFTER_ITS_BOOT,
    ),
    Mutant(
        "fenced-is-failure",
        "R19 (S23): hidden by the compare-and-set of the change",
        Rules(fenced_is_failure=True),
        NOTHING,
        ONE_SPARE,
        directed=(
            "tests/scenarios/test_s15_to_s23_writer.py"
            "::test_s23_fenced_keeps_what_is_acked_fails_the_rest_and_replaces_nobody",
        ),
    ),
    Mutant(
        "reads-count-as-acks",
        "R13: one entry shows nothing, its copy is there",
        Rules(reads_count_as_acks=True),
        NOTHING,
        directed=("tests/bookie/protocol/test_recovery.py::test_reads_never_count_as_acks",),
    ),
)

MUTANTS = (*PUBLISHED, *OTHERS)
