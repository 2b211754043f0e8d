"""What dirty notes (`model_notes`) were explored with, and the ways in which a note can lie.

What is explored here is the evidence of docs/decisions/2026-11-27-dirty-notes.md.
"""

from dataclasses import replace

from model_gentle import GENTLE, OTHER_BARRIER
from model_ledger import TOO_FEW_COPIES, TRUNCATED, VOUCHED_LOST
from model_mutants import Case, Mutant, each
from model_rules import BootFence, Bounds, NoteGoes, Rules
from model_story import Move

PAIR = Bounds(write_quorum=2, notes=True)
"""2/2/2: one false denial is enough to cut an entry off."""
TWO_CRASHES = replace(PAIR, crashes=2)
TRIPLE = Bounds(notes=True)
STALE = replace(PAIR, slow_clear=True, stale_starts=True, retries=True)
EARLY = Rules(stores_before_note=True)
GENTLE_EARLY = replace(GENTLE, stores_before_note=True)
SPARE = replace(PAIR, spares=1, writer_changes=1)
E0_STORED: tuple[Move, ...] = (
    ("adds", -1, 0),
    *each("notes", 0, 1),
    *each("stores", 0, 1, entry=0),
)
"""Both bookies have the entry, and the notes that their answers rest on."""
E0_ACKED: tuple[Move, ...] = (*E0_STORED, *each("hears_ok", 0, 1, entry=0))
E0_NOTED: tuple[Move, ...] = (*E0_ACKED, ("adds", -1, 1))
"""As `model_mutants.E0_ACKED`, with notes."""


def noted(name: str, bounds: Bounds, rules: Rules = EARLY, *, start: tuple[Move, ...] = ()) -> Case:
    """One exploration with notes; entries can be read here before their note is durable."""
    return Case(f"notes, {name}", bounds, rules, start)


QUICK = (
    noted("one crash", PAIR),
    noted("two crashes", TWO_CRASHES),
    noted("answers only what is noted", TWO_CRASHES, Rules()),
    noted("disks or notes lost", replace(TWO_CRASHES, disk_loss=True)),
    noted("any part lost", replace(TWO_CRASHES, partial_loss=True)),
    noted("no boundary", TWO_CRASHES, replace(EARLY, boot_fence=BootFence.NONE)),
    noted("slow boot", replace(PAIR, slow_boot=True)),
    noted("deleted (S40)", replace(PAIR, disk_loss=True, delete=True)),
    noted("stale metadata", STALE),
)
LONG = (
    noted("a person accepts the loss", replace(TWO_CRASHES, accept_loss=True)),
    noted("clean restart", replace(PAIR, restarts=1)),
    noted("writer changes", replace(PAIR, spares=1, writer_changes=1)),
    noted("recoverer replaces", replace(PAIR, spares=1, recovery_changes=1)),
    noted("recoverer replaces, dies", replace(PAIR, spares=1, recovery_changes=1, attempts=2)),
    noted("two recoverers", replace(PAIR, recoverers=2)),
    noted("two entries", replace(PAIR, entries=2), start=E0_NOTED),
    noted("3/3/2", TRIPLE, Rules()),
    noted("striped", replace(PAIR, ensemble=3)),
    noted("gentle", replace(PAIR, spares=1, writer_changes=1), GENTLE_EARLY),
    noted(
        "gentle, stale metadata",
        replace(STALE, spares=1, writer_changes=1),
        replace(GENTLE_EARLY, stores_before_note=False),
    ),
    noted("gentle, taken back", replace(STALE, spares=1, writer_changes=2), GENTLE),
    noted(
        "gentle, e0 stored, taken back", replace(SPARE, writer_changes=2), GENTLE, start=E0_STORED
    ),
    noted("gentle, e0 stored, two crashes", replace(SPARE, crashes=2), GENTLE, start=E0_STORED),
    noted("gentle, e0 stored, disks lost", replace(SPARE, disk_loss=True), GENTLE, start=E0_STORED),
    noted("gentle, e0 stored, no boundary", SPARE, OTHER_BARRIER, start=E0_STORED),
)

IDLE: tuple[Move, ...] = (
    *E0_ACKED,
    *each("begins_flush", 0, 1),
    *each("flushes", 0, 1),
    *each("unnotes", 0, 1),
)
"""An open ledger with one entry, idle for longer than a checkpoint."""

LIES = (
    Mutant(
        "answered-before-note",
        "written too late",
        Rules(note_before_answer=False),
        TOO_FEW_COPIES,
        PAIR,
    ),
    Mutant(
        "write-backs-without-note",
        "written for a writer's adds only",
        Rules(notes_of_write_backs=False),
        TOO_FEW_COPIES,
        PAIR,
    ),
    Mutant(
        "note-goes-at-begin",
        "taken back before anything is synced",
        Rules(note_goes=NoteGoes.BEGUN),
        TOO_FEW_COPIES,
        PAIR,
    ),
    Mutant(
        "note-goes-at-end",
        "taken back whatever came while the checkpoint ran",
        Rules(note_goes=NoteGoes.ENDED),
        TOO_FEW_COPIES,
        replace(PAIR, entries=2),
        start=E0_NOTED,
    ),
    Mutant(
        "notes-outlive-their-disk",
        "lost with a disk, or older than what is on it",
        Rules(doubts_lost_disks=False),
        TOO_FEW_COPIES,
        replace(PAIR, disk_loss=True),
    ),
    Mutant(
        "fences-in-memory",
        "R24: a ledger without a note has no boundary, its durable fence is all there is",
        Rules(fence_durable=False),
        TRUNCATED,
        PAIR,
    ),
    Mutant(
        "cleared-before-synced",
        "R27: a repaired ledger has no note",
        Rules(clear_after_sync=False),
        VOUCHED_LOST,
        TWO_CRASHES,
    ),
)
"""Each way in which a note can lie, and what else a ledger without one hangs on."""
