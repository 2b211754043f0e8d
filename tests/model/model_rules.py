"""What a model is about: how large it is (`Bounds`) and which rules hold in it (`Rules`).

`Rules()` is the protocol as the product has it; docs/safety.md and the modules named below say why.
Every field is one rule, and any other value is a mutant: `model_mutants` names them.
"""

from dataclasses import dataclass
from enum import Enum


class BootFence(Enum):
    """Which ledgers an unclean boot keeps behind a boundary forever (R24)."""

    DISKS_LOST = "every ledger that existed, also deleted ones, if the disks are not as they were"
    ALL = "every ledger that existed, also deleted ones"
    EXISTING = "those the metadata lists"
    NAMING = "those whose metadata name this bookie"
    NOT_CLOSED = "those that are not closed"
    NONE = "none"


class ClearWhen(Enum):
    """The earliest state of the ledger in which limbo may be cleared (R27)."""

    CLOSED = "closed"
    IN_RECOVERY = "in recovery"
    ANY = "any"


class HeldBy(Enum):
    """Which recoveries of the ledger hold an unchecked mark and the boundary (R28)."""

    UNCLEAN_BOOT = "those under way when the last unclean boot looked"
    LAST_BOOT = "those under way when the last boot looked, be it a clean one"
    EVERY = "every one"
    NONE = "none"


class NoteGoes(Enum):
    """When a checkpoint takes back the note that a ledger may have unsynced entries."""

    CLEAN = "once all that is here is synced"
    ENDED = "at its end, whatever came meanwhile"
    BEGUN = "at its begin"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The size of a model: one ledger, one writer.

    `ensemble`: larger than the write quorum, entries are striped; 0: as large, none are.
    `crashes`: unclean stops; each loses all that is not synced, or, with `partial_loss`, any part
    of it. `disk_loss`: a stop may take the disks, fences and marks with it. `restarts`: clean ones.
    `slow_boot`: others go on between a stop, the boot's look at the metadata, and the boot's end.
    `slow_clear`: and between a look at the metadata and the clearing of a mark. `spares`: bookies
    beside the first ensemble; `writer_changes`, `recovery_changes`: how many times a member is
    replaced. `attempts`: of each recoverer, which may die; `retries`: it tries again as often as it
    could not decide; `stale_starts`: it may act on metadata it read before others changed them.
    `reader`: someone tails. `accept_loss`: a person accepts a possible loss. `delete`: the closed
    ledger may be deleted and collected. `io_errors`: a read of what is held may fail.
    `notes`: bookies keep dirty notes and make checkpoints (`model_notes`). `moves`: how often a
    bookie is replaced in the fragments before the last, as a drain does (`model_mover`).
    `explicit_lacs`: the writer stores its LAC on members without an entry.
    """

    write_quorum: int = 3
    ack_quorum: int = 2
    entries: int = 1
    crashes: int = 1
    restarts: int = 0
    recoverers: int = 1
    attempts: int = 1
    retries: bool = False
    stale_starts: bool = False
    spares: int = 0
    writer_changes: int = 0
    recovery_changes: int = 0
    partial_loss: bool = False
    disk_loss: bool = False
    slow_boot: bool = False
    slow_clear: bool = False
    reader: bool = False
    accept_loss: bool = False
    delete: bool = False
    io_errors: bool = False
    notes: bool = False
    ensemble: int = 0
    moves: int = 0
    explicit_lacs: bool = False

    @property
    def ensemble_size(self) -> int:
        return self.ensemble or self.write_quorum

    @property
    def is_striped(self) -> bool:
        return self.ensemble_size > self.write_quorum

    @property
    def reads_tell_lac(self) -> bool:
        """A bookie may know more of the LAC than the entries that it is asked for say."""
        return self.is_striped or self.explicit_lacs

    @property
    def coverage(self) -> int:
        """Answers after which no ack quorum can be made of the others (R1)."""
        return self.write_quorum - self.ack_quorum + 1

    @property
    def faults_max(self) -> int:
        """f: members that may have forgotten at once."""
        return self.ack_quorum - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol. Defaults are the product's; the comments name where it keeps each rule."""

    # protocol.admission
    reads_fence: bool = True
    fence_durable: bool = True  # server.durable: before it is answered
    denies_on_io_error: bool = False
    not_writable_here: bool = True  # marks and boundary answer this; FENCED only where fenced
    marks_refuse: bool = True  # adds, while the check has not ended
    # boot.boot, boot.marker
    marker_holds: bool = True
    boot_awaited: bool = True
    boot_fence: BootFence = BootFence.DISKS_LOST
    boot_reads_fresh: bool = True
    limbo: bool = True
    unchecked: bool = True
    tombstones: bool = True
    # protocol.clearing, server.marks
    clear_when: ClearWhen = ClearWhen.CLOSED
    clear_if_replaced: bool = True  # OPEN, and the last fragment does not name it
    clear_if_replaced_in_recovery: bool = False
    unchecked_held_by: HeldBy = HeldBy.UNCLEAN_BOOT
    clear_needs_copies: bool = True
    clear_after_sync: bool = True
    # protocol.quorum, protocol.answers
    fence_threshold: int | None = None  # None: coverage
    denials_needed: int | None = None  # None: coverage
    copies_needed: int = 1
    fence_covers_each: bool = True  # every write set, not so many of the ensemble
    denials_of_write_set: bool = True  # who does not store an entry has nothing to deny
    asks_others: bool = True  # before an entry is called undecidable
    unknown_denies: bool = False
    # protocol.recovery, protocol.writeback
    mark_checks_version: bool = True
    starts_at_last_fragment: bool = True
    writes_back: bool = True
    waits_for_write_backs: bool = True
    reads_count_as_acks: bool = False
    lac_frozen: bool = True
    closed_is_terminal: bool = True
    close_checks_state: bool = True
    changes_kept_local: bool = True
    # protocol.writer
    acks_needed: int | None = None  # None: ack quorum
    close_checks_version: bool = True
    change_checks_version: bool = True
    frozen_while_changing: bool = True
    unacks_replaced: bool = True
    explicit_lac_acked: bool = True  # it says no more than what is acknowledged
    commits_before_use: bool = True
    fenced_is_failure: bool = False
    # repair.mend.ledger_move
    move_needs_copies: bool = True
    move_after_sync: bool = True
    # storage.notes: they matter within `Bounds.notes` only
    note_before_answer: bool = True
    notes_of_write_backs: bool = True
    stores_before_note: bool = False
    note_goes: NoteGoes = NoteGoes.CLEAN
    doubts_lost_disks: bool = True
