"""What a soak says: a line now and then, one at the end, and the figures of it for machines."""

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fault_plan import Kind
from promises import Findings


@dataclass(slots=True)
class Tally:
    """All that is counted while it goes on."""

    faults: Counter[Kind] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    """What the stories of two processes, and of two clusters, came to: see who counts it."""
    struck_again: int = 0
    """Killed once more while they started or were being repaired."""
    full_ends: int = 0
    """Ends of bookies, killed or by themselves, on a full disk."""
    unclean_boots: int = 0
    repairs: int = 0
    boot_s: list[float] = field(default_factory=list)
    clear_s: list[float] = field(default_factory=list)
    """From serving again to the last mark gone, one for each loss that left marks."""
    marks: int = 0
    entries_copied: int = 0
    audit: dict[str, int] = field(default_factory=dict)
    """Counts of the audit at the end, empty before it."""
    audit_before: dict[str, int] = field(default_factory=dict)
    """The same before copies that had never arrived were made."""
    ledgers_read: int = 0
    copies: int = 0
    """Copies read one by one at the end."""
    left_out: list[str] = field(default_factory=list)
    """Kinds of faults that this machine cannot do, and why."""

    @property
    def is_audit_clean(self) -> bool:
        return bool(self.audit) and self.audit["ok"] == self.audit["entries"]


@dataclass(frozen=True, slots=True)
class Load:
    """What the clients have told."""

    acked: int
    checked: int
    ledgers: int
    unanswered: int
    taken_over: int
    deleted: int
    longest_pause_s: float


def kills_line(faults: Counter[Kind]) -> str:
    """`23 faults (12 SIGKILL, 4 SIGSTOP, ...)`."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in faults.most_common())
    return f"{faults.total()} faults" + (f" ({kinds})" if kinds else "")


def progress_line(tally: Tally, load: Load, *, elapsed_s: float, minutes: float, limbo: str) -> str:
    return (
        f"soak {elapsed_s:4.0f} of {minutes * 60:.0f} s: {kills_line(tally.faults)}, "
        f"{load.acked:,} acked, {load.checked:,} checked, limbo {limbo or 'none'}, "
        f"longest ack pause {load.longest_pause_s:.1f} s"
    )


def last_line(tally: Tally, load: Load, findings: Findings, *, minutes: float, seed: int) -> str:
    audit = "audit ok" if tally.is_audit_clean else f"audit NOT ok {tally.audit or '(not reached)'}"
    failed = f", {findings.failed} FAILED" if findings.failed else ""
    left_out = f"; without {', '.join(tally.left_out)}" if tally.left_out else ""
    return (
        f"soak: {minutes:g} min, {kills_line(tally.faults)}, {load.acked:,} acked, "
        f"{findings.lost:,} lost, {findings.wrong:,} wrong{failed}, {audit}{left_out}; seed {seed}"
    )


def figures(
    tally: Tally, load: Load, findings: Findings, *, minutes: float, seed: int, modes: list[str]
) -> dict[str, Any]:
    return {
        "seed": seed,
        "minutes": minutes,
        "modes": modes,
        "faults": {str(kind): count for kind, count in tally.faults.items()},
        "asked": dict(sorted(tally.asked.items())),
        "struck_again": tally.struck_again,
        "ended_on_a_full_disk": tally.full_ends,
        "unclean_boots": tally.unclean_boots,
        "left_out": tally.left_out,
        "acked": load.acked,
        "checked": load.checked,
        "ledgers": load.ledgers,
        "ledgers_read_at_the_end": tally.ledgers_read,
        "copies_read_at_the_end": tally.copies,
        "ledgers_taken_over": load.taken_over,
        "ledgers_deleted": load.deleted,
        "unanswered": load.unanswered,
        "lost": findings.lost,
        "wrong": findings.wrong,
        "failed": findings.failed,
        "findings": findings.words,
        "longest_ack_pause_s": round(load.longest_pause_s, 3),
        "boot_s": spread(tally.boot_s),
        "limbo_cleared_s": spread(tally.clear_s),
        "marks": tally.marks,
        "repairs": tally.repairs,
        "entries_copied": tally.entries_copied,
        "audit_before_last_repair": tally.audit_before,
        "audit": tally.audit,
    }


def spread(seconds: list[float]) -> dict[str, float]:
    """Median and most, empty without figures."""
    if not seconds:
        return {}
    return {
        "count": len(seconds),
        "median": round(statistics.median(seconds), 3),
        "max": round(max(seconds), 3),
    }
