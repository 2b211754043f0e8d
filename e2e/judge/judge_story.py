"""What happens to a fleet while the judge writes: a pure plan of faults, and one judged run.

One bookie forgets at a time, and the fleet is waited for in between: more is not promised.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from judge_fleet import BOOKIES, Fleet
from judge_java import Document, Judge


class Kind(StrEnum):
    """The values are the words of reports."""

    KILL = "SIGKILL"
    REPLACE_DISK = "disk replaced"
    DRAIN = "drained by fewer replicas"


FIRST: Final = (Kind.KILL, Kind.REPLACE_DISK, Kind.DRAIN)
"""So that the shortest run has each of them."""
WEIGHTS: Final = {Kind.KILL: 3, Kind.REPLACE_DISK: 1}
GAP_S: Final = (2.0, 12.0)
"""Before each: shorter and longer than the flush interval."""
SETTLE_S: Final = 5.0
"""The writer's last seconds, without any fault."""
WRITE_BEYOND_S: Final = 900.0
"""A writer ends by itself only when nobody stops it."""
WRITING: Final = {"writers": 3, "rate": 400, "layouts": "3/3/2,4/3/2,3/2/2", "entries": 2000}


@dataclass(frozen=True, slots=True)
class Fault:
    """`victim`: the number of a bookie; the last one is drained, whoever it names."""

    kind: Kind
    victim: int
    disk: str
    gap_s: float

    def __str__(self) -> str:
        disk = f" {self.disk}" if self.kind is Kind.REPLACE_DISK else ""
        return f"{self.kind} bookie-{self.victim}{disk}"


def faults(seed: int) -> Iterator[Fault]:
    """Endless, and a function of the seed. One drain: after it there is one bookie less.

    Disks are replaced of one bookie, which stays: a person is asked where two bookies come with
    other disks within ten minutes.
    """
    rng = random.Random(f"judge {seed}")
    left, changed = BOOKIES, rng.randrange(BOOKIES - 1)
    drawn = (rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0] for _ in repeat(None))
    for kind in chain(FIRST, drawn):
        victims = {Kind.DRAIN: BOOKIES - 1, Kind.REPLACE_DISK: changed}
        victim = victims[kind] if kind in victims else rng.randrange(left)
        left -= kind is Kind.DRAIN
        yield Fault(kind, victim, f"ledger-{rng.randrange(2)}", rng.uniform(*GAP_S))


@dataclass(slots=True)
class Run:
    """One fleet, one writer, faults, a verdict. `told`: what is reported of it."""

    fleet: Fleet
    classpath: str
    seed: int
    name: str
    struck: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        print(f"{self.name} {time.monotonic() - self.began:4.0f} s: {words}", flush=True)

    def judge(self) -> Judge:
        folder = self.fleet.folder / "judge"
        folder.mkdir(exist_ok=True)
        return Judge(self.classpath, folder, self.fleet.metadata(), self.fleet.credentials())

    @property
    def incidents(self) -> int:
        """Faults that made a bookie forget, or might have."""
        return self.struck[Kind.KILL] + self.struck[Kind.REPLACE_DISK]

    def strike(self, fault: Fault) -> None:
        """It happens; whoever waits waits afterwards."""
        bookie = f"bookie-{fault.victim}"
        match fault.kind:
            case Kind.KILL:
                self.fleet.kill(bookie)
            case Kind.REPLACE_DISK:
                self.fleet.replace_disk(bookie, fault.disk)
            case Kind.DRAIN:
                self.fleet.up(replicas=BOOKIES - 1)
        self.struck[fault.kind] += 1

    def told(self, *, written: Document, verdict: Document) -> Document:
        entries, copies = verdict.get("entries", {}), verdict.get("copies", {})
        return {
            "seed": self.seed,
            "mode": self.fleet.mode,
            "tls": self.fleet.tls,
            "seconds": round(time.monotonic() - self.began, 1),
            "faults": dict(sorted(self.struck.items())),
            "ledgers": written["ledgers"],
            "ends": written["ends"],
            "ensemble_changes": written["ensembleChanges"],
            "acknowledged": written["acknowledged"],
            "read": entries.get("read", 0),
            "copies_owed": copies.get("owed", 0),
            "copies_held": copies.get("held", 0),
            "findings": verdict.get("findings", {}),
            "status_contradicts": verdict.get("statusContradicts", []),
            "exit_code": verdict["exitCode"],
        }


def judged(run: Run, *, minutes: float) -> Document:
    """Faults for so many minutes, then `local wait`, then the judge; the fleet is up and stays.

    A writer that found too few bookies leaves entries with no more copies than it waited for, after
    any audit of before; the status speaks of them once one has looked again.
    """
    judge = run.judge()
    writer = judge.write(seconds=minutes * 60 + WRITE_BEYOND_S, seed=run.seed, options=WRITING)
    try:
        end = time.monotonic() + minutes * 60
        for fault in faults(run.seed):
            if time.monotonic() + fault.gap_s > end and len(FIRST) <= run.struck.total():
                break
            time.sleep(fault.gap_s)
            struck = time.monotonic()
            run.strike(fault)
            run.fleet.wait()
            run.say(f"{fault}: whole by its own word after {time.monotonic() - struck:.1f} s")
        time.sleep(max(end - time.monotonic(), SETTLE_S))
    finally:
        written = writer.stop()
    run.fleet.wait()
    run.fleet.audit()
    run.fleet.wait()
    status = run.fleet.save_status("status")
    verdict = judge.check(status=status, faults=run.incidents, name="verdict")
    return run.told(written=written, verdict=verdict)


def new_folder(work: Path, name: str) -> Path:
    folder = work / name
    folder.mkdir(parents=True)
    return folder
