"""The gentler rule: a crash of one bookie need not end an open ledger.

An add to a ledger that was in doubt at an unclean boot is answered "not writable here" instead of
FENCED, so that a live writer replaces this bookie; and limbo may be cleared once a linearizable
read shows the ledger OPEN with a last fragment that no longer names the bookie, its copies of the
fragments before restored and synced. What is explored here is the evidence of
docs/decisions/2026-11-21-gentler-limbo.md and 2026-11-28-writers-live-on.md.
"""

from dataclasses import replace

from model_ledger import DIRTY_READ, TOO_FEW_COPIES, TRUNCATED
from model_mutants import E0_ACKED, NOTHING, Case, Mutant, each
from model_published import Stage
from model_rules import BootFence, Bounds, ClearWhen, Rules
from model_story import Move

GENTLE = Rules()
"""The product's rules."""
ENDS_WRITERS = Rules(not_writable_here=False, clear_if_replaced=False)
"""The rules of release 0.1.0: FENCED for all that was in doubt, and limbo until the close."""
WHOLE_BOUNDARY = replace(GENTLE, boot_fence=BootFence.ALL)
ONE_BARRIER = replace(WHOLE_BOUNDARY, fence_durable=False)
OTHER_BARRIER = replace(GENTLE, boot_fence=BootFence.NONE)

PAIR = Bounds(write_quorum=2, spares=1, writer_changes=1)
"""2/2/2 with a spare: one false denial is enough to cut an entry off."""
STALE = replace(PAIR, slow_clear=True, stale_starts=True, retries=True)
TRIPLE = Bounds(spares=1, writer_changes=1)
STRIPED = replace(PAIR, ensemble=3)
"""3/2/2: e0 is on B0 and B1, e1 on B1 and B2, e2 on B2 and B0."""
MOVED = replace(STALE, entries=2, moves=1)
TOLD = replace(STALE, explicit_lacs=True)

LIVES_ON = (
    Stage(
        "W adds e0 to B0, B1, B2; B0 and B1 confirm.",
        (
            ("adds", -1, 0),
            *each("stores", 0, 1, 2, entry=0),
            *each("hears_ok", 0, 1, entry=0),
        ),
    ),
    Stage("B0 crashes and boots; the ledger is in limbo there.", each("stops", 0)),
    Stage(
        "W adds e1; B0 cannot take it; W puts B3 in its place.",
        (
            ("adds", -1, 1),
            ("cannot_write", 0, 1),
            ("replaces", 0, -1),
            ("changes", -1, -1),
        ),
    ),
    Stage(
        "B1 and B3 store e1; W goes on.",
        (*each("stores", 1, 3, entry=1), *each("hears_ok", 1, 3, entry=1)),
    ),
    Stage("Repair brings e0 back to B0, which clears its limbo.", each("copied", 0)),
    Stage("B0 clears its limbo; the ledger is OPEN all the time.", each("clears", 0)),
    Stage("W closes its ledger itself.", each("closes_own", -1)),
)
"""What the rule is for: impossible in 0.1.0, where B0 answers FENCED and every mark waits."""

LIVES: tuple[Move, ...] = (
    *E0_ACKED,
    ("stops", 0, -1),
    ("cannot_write", 0, 1),
    ("replaces", 0, -1),
    ("changes", -1, -1),
)
"""B0 stopped with its copy of e0; the writer has put B3 in its place from e1 on."""
STRIPED_LIVES: tuple[Move, ...] = (
    *E0_ACKED,
    ("stops", 1, -1),
    ("cannot_write", 1, 1),
    ("replaces", 1, -1),
    ("changes", -1, -1),
)
"""The same with striping: B1 owes both entries, and B3 takes its place from e1 on."""
TWO_ACKED: tuple[Move, ...] = (
    *E0_ACKED,
    *each("stores", 0, 1, entry=1),
    *each("hears_ok", 0, 1, entry=1),
    ("adds", -1, 2),
)
CHANGED: tuple[Move, ...] = (*E0_ACKED, ("replaces", 0, -1), ("changes", -1, -1))
"""The writer has put B2 in the place of B0 from e1 on, and nobody has crashed."""
E0_EVERYWHERE: tuple[Move, ...] = (
    ("adds", -1, 0),
    *each("stores", 0, 1, 2, entry=0),
    *each("hears_ok", 0, 1, entry=0),
)
S24: tuple[Move, ...] = (
    *E0_EVERYWHERE,
    ("starts", -1, -1),
    *each("fences", 0, 1),
    *each("hears_fence", 0, 1),
    *each("reads", 0, 1),
    *each("hears_read", 0, 1),
    *each("takes_back", 0, 1, entry=0),
    *each("hears_write", 0, 1, entry=0),
    ("closes", -1, 0),
)
"""Closed at e0; B2 never heard of a fence; the old writer is about to add e1."""
S46: tuple[Move, ...] = (
    *E0_EVERYWHERE,
    ("starts", -1, -1),
    *each("fences", 0, 2),
    *each("hears_fence", 0, 2),
    *each("reads", 0, 2),
    ("hears_read", 0, -1),
    ("replaces_local", 2, -1),
    *each("takes_back", 0, 3, entry=0),
    ("hears_read", 2, -1),
    *each("hears_write", 0, 3, entry=0),
    ("closes", -1, 0),
)
"""Closed at e0 by a recoverer that put B3 in the place of B2; no metadata names B2."""


def gentle(
    name: str, bounds: Bounds, rules: Rules = GENTLE, *, start: tuple[Move, ...] = ()
) -> Case:
    """One exploration under the gentler rule."""
    return Case(f"gentle, {name}", bounds, rules, start)


QUICK = (
    gentle("one spare", PAIR),
    gentle("taken back by a second change", replace(STALE, writer_changes=2)),
    gentle("two crashes", replace(STALE, writer_changes=2, crashes=2)),
    gentle("disks lost", replace(STALE, crashes=2, disk_loss=True)),
    gentle("recoverer replaces, dies", replace(STALE, recovery_changes=1, attempts=2)),
    gentle("slow boots", replace(PAIR, slow_boot=True)),
    gentle("deleted (S40)", replace(PAIR, disk_loss=True, delete=True)),
    gentle("fences in memory", replace(STALE, writer_changes=2), ONE_BARRIER),
    gentle("no boundary", replace(STALE, writer_changes=2), OTHER_BARRIER),
    gentle("S24", Bounds(entries=2, disk_loss=True, delete=True), start=S24),
    gentle(
        "S46",
        Bounds(entries=2, spares=1, writer_changes=1, recovery_changes=1, disk_loss=True),
        start=S46,
    ),
    gentle("striped", STRIPED),
    gentle("striped, stale metadata", replace(STRIPED, stale_starts=True, retries=True)),
    gentle("striped, two entries", replace(STRIPED, entries=2, crashes=2), start=STRIPED_LIVES),
    gentle(
        "striped, two entries, recoverer replaces",
        replace(STRIPED, entries=2, recovery_changes=1),
        start=STRIPED_LIVES,
    ),
    gentle(
        "striped, two entries, two changes",
        replace(STRIPED, entries=2, writer_changes=2),
        start=STRIPED_LIVES,
    ),
    gentle("three entries", replace(STALE, entries=3), start=LIVES),
    gentle("three entries, two acknowledged", replace(PAIR, entries=3), start=TWO_ACKED),
    gentle("a drain moves what came before", MOVED, start=LIVES),
    gentle("a drain has two targets", replace(MOVED, spares=2), start=LIVES),
    gentle("explicit LACs", TOLD),
    gentle("explicit LACs, two crashes", replace(TOLD, writer_changes=2, crashes=2)),
    gentle("explicit LACs, disks lost", replace(TOLD, crashes=2, disk_loss=True)),
    gentle("explicit LACs, no boundary", replace(TOLD, writer_changes=2), OTHER_BARRIER),
    gentle(
        "a boundary after every unclean stop",
        replace(STALE, writer_changes=2),
        WHOLE_BOUNDARY,
    ),
)
LONG = (
    gentle("any part lost", replace(STALE, writer_changes=2, crashes=2, partial_loss=True)),
    gentle("two recoverers", replace(STALE, recoverers=2)),
    gentle("two recoverers that replace", replace(PAIR, recoverers=2, recovery_changes=1)),
    gentle("two entries", replace(STALE, entries=2)),
    gentle("two entries, two changes", replace(PAIR, entries=2, writer_changes=2)),
    gentle(
        "two entries, recoverer replaces",
        replace(PAIR, entries=2, recovery_changes=1),
        start=E0_ACKED,
    ),
    gentle("3/3/2", replace(TRIPLE, slow_clear=True)),
    gentle("3/3/2, two entries", replace(TRIPLE, entries=2), start=LIVES),
    gentle("3/3/2, taken back", replace(TRIPLE, writer_changes=2)),
    gentle("3/3/2, two crashes", replace(TRIPLE, crashes=2)),
    gentle("striped, two changes", replace(STRIPED, writer_changes=2)),
    gentle(
        "striped, two crashes",
        replace(STRIPED, crashes=2, slow_clear=True, stale_starts=True, retries=True),
    ),
    gentle("striped, recoverer replaces", replace(STRIPED, recovery_changes=1)),
    gentle("striped, e0 acknowledged", replace(STRIPED, entries=2), start=E0_ACKED),
    gentle(
        "striped, three entries",
        replace(STRIPED, entries=3, slow_clear=True, stale_starts=True, retries=True),
        start=STRIPED_LIVES,
    ),
    gentle("striped, explicit LACs", replace(STRIPED, explicit_lacs=True)),
    gentle("three entries, two crashes", replace(PAIR, entries=3, crashes=2), start=LIVES),
    gentle("three entries, two changes", replace(PAIR, entries=3, writer_changes=2), start=LIVES),
    gentle(
        "three entries, recoverer replaces",
        replace(PAIR, entries=3, recovery_changes=1),
        start=LIVES,
    ),
    gentle("a drain, striped", replace(MOVED, ensemble=3), start=STRIPED_LIVES),
    gentle("a drain, two crashes", replace(MOVED, crashes=2), start=LIVES),
    gentle("a drain, recoverer replaces", replace(MOVED, recovery_changes=1), start=LIVES),
    gentle("a drain moves twice", replace(MOVED, spares=2, moves=2), start=LIVES),
    gentle("a drain, then a crash", MOVED, start=CHANGED),
    gentle("a drain, taken back", replace(MOVED, writer_changes=2), start=LIVES),
)


def quick(*names: str) -> tuple[Case, ...]:
    """These cases of QUICK, in its order."""
    wanted = {f"gentle, {name}" for name in names}
    found = tuple(case for case in QUICK if case.name in wanted)
    assert len(found) == len(names), names
    return found


CONDITIONS = (
    Mutant(
        "clears-while-named",
        "the last fragment names it: what a lagging read amounts to",
        replace(GENTLE, clear_when=ClearWhen.ANY),
        TRUNCATED,
        PAIR,
    ),
    Mutant(
        "clears-in-recovery",
        "IN_RECOVERY: the recoverer may have chosen it",
        replace(GENTLE, clear_if_replaced_in_recovery=True),
        TOO_FEW_COPIES,
        replace(PAIR, recovery_changes=1, crashes=2),
    ),
    Mutant(
        "clears-without-copies",
        "what it owes of earlier fragments is not back",
        replace(GENTLE, clear_needs_copies=False),
        TOO_FEW_COPIES,
        replace(PAIR, entries=2),
        start=(
            ("adds", -1, 0),
            *each("stores", 0, 1, entry=0),
            *each("hears_ok", 0, 1, entry=0),
            ("stops", 0, -1),
            ("adds", -1, 1),
            ("cannot_write", 0, 1),
        ),
    ),
    Mutant(
        "writer-keeps-replaced-acks",
        "R20: what the bookie stored before its stop counts",
        replace(GENTLE, unacks_replaced=False),
        TRUNCATED,
        PAIR,
    ),
    Mutant(
        "change-ignores-version",
        "R20: a fenced-out writer lives on",
        replace(GENTLE, change_checks_version=False),
        TRUNCATED,
        PAIR,
    ),
    Mutant(
        "recovery-ignores-version",
        "R11: reads from the ensemble before the change",
        replace(GENTLE, mark_checks_version=False),
        TRUNCATED,
        replace(PAIR, stale_starts=True),
    ),
    Mutant(
        "recovery-starts-at-lac",
        "R12: reads below the last fragment",
        replace(GENTLE, starts_at_last_fragment=False),
        TRUNCATED,
        replace(PAIR, entries=2),
        start=E0_ACKED,
    ),
    Mutant(
        "neither-barrier",
        "R24: no boundary, fences in memory",
        replace(GENTLE, boot_fence=BootFence.NONE, fence_durable=False),
        TRUNCATED,
    ),
    Mutant(
        "denied-by-who-does-not-store-it",
        "R4: striping",
        replace(GENTLE, denials_of_write_set=False),
        TRUNCATED,
        replace(STRIPED, spares=0, writer_changes=0),
    ),
    Mutant(
        "fence-covers-one-write-set",
        "R2: striping, and reads do not fence",
        replace(GENTLE, fence_covers_each=False, reads_fence=False),
        TRUNCATED,
        replace(STRIPED, spares=0, writer_changes=0, crashes=0),
    ),
    Mutant(
        "fence-covers-one-write-set-reads-fence",
        "R2: striping, hidden by reads that fence (R6)",
        replace(GENTLE, fence_covers_each=False),
        NOTHING,
        STRIPED,
        directed=(
            "tests/bookie/protocol/test_quorum.py"
            "::test_a_fence_covers_exactly_when_no_entry_can_be_acked_any_more",
            "tests/scenarios/test_fencing.py"
            "::test_s06_two_fences_that_leave_a_write_set_free_are_not_enough",
        ),
    ),
    Mutant(
        "moved-without-copies",
        "the target of a drain has not what it takes over",
        replace(GENTLE, move_needs_copies=False),
        TOO_FEW_COPIES,
        MOVED,
        start=CHANGED,
    ),
    Mutant(
        "moved-before-synced",
        "the target of a drain forgets before the metadata name it, and marks nothing",
        replace(GENTLE, move_after_sync=False),
        TOO_FEW_COPIES,
        replace(MOVED, spares=2),
        start=CHANGED,
    ),
    Mutant(
        "tells-more-than-acknowledged",
        "an explicit LAC of what was only sent",
        replace(GENTLE, explicit_lac_acked=False),
        DIRTY_READ,
        replace(PAIR, explicit_lacs=True),
    ),
)
