"""`make judge-mutants`: faults planted on purpose, each of which the judge must turn red.

First a fleet of the product as it is: judged whole, then with one fault after another in its notes
and on its disks. Then fleets whose product has a planted bug. Exit codes: 0 each was caught and the
fleet without any was whole, or SKIPPED where Maven or a JDK is missing; 1 one survived, or could
not be run.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.apache import ApacheError, NoToolsError
from bookie.testing.figures import code_revision, tell
from judge_faults import (
    CLEARED_UNWHOLE,
    COPIES_NOTHING,
    GIVES_OUT_ROT,
    MOVES_NOTHING,
    closed_ledgers,
    flip,
    flip_payload_byte,
    logs_of,
    with_forged_ack,
)
from judge_fleet import BOOKIES, TLS_MODES, Fleet, FleetError
from judge_java import (
    COPY_MISSING,
    ENTRY_LOST,
    NOT_JUDGED,
    WHOLE,
    Document,
    Judge,
    build,
)
from judge_story import WRITING, Run, new_folder
from mutant import Mutant
from mutant_overlay import Overlay

SEED: Final = 20_261_125
WRITE_S: Final = 30.0
NEVER_WHOLE_S: Final = 60
"""How long a fleet is waited for that may never call itself whole."""
WORDS_MAX: Final = 3
"""Of what was found, in the report."""
KILLS: Final = 3
"""So many bookies forget what they had not flushed: one may just have flushed."""
FLIPPED, WITHOUT_LOG, KILLED = "bookie-0", "bookie-2", "bookie-1"


@dataclass(frozen=True, slots=True)
class Fault:
    """`codes`: what the judge may end with. `lies`: the status must be contradicted, too."""

    name: str
    codes: frozenset[int]
    lies: bool = False
    bookie: str = ""
    """Where copies must be found missing, corrupt or unknown; empty: anywhere."""


CONTROL: Final = Fault("nothing is planted", frozenset({WHOLE}))
FORGED_ACK: Final = Fault(
    "an acknowledged entry noted that was never written", frozenset({ENTRY_LOST})
)
FLIPPED_BYTE: Final = Fault(
    # Its bookie says "I/O error": neither a copy nor a denial.
    "one flipped byte in a stored copy",
    frozenset({COPY_MISSING, NOT_JUDGED}),
    lies=True,
    bookie=FLIPPED,
)
ROT: Final = Fault(GIVES_OUT_ROT.name, frozenset({COPY_MISSING}), lies=True, bookie=FLIPPED)
LOST_LOG: Final = Fault(
    "a log file of one bookie removed while it is down, its index rebuilt, and no repair",
    frozenset({COPY_MISSING, NOT_JUDGED}),
    bookie=WITHOUT_LOG,
)
OF_MUTANTS: Final[Mapping[Mutant, Fault]] = {
    # Its bookie never lets go of its marks, and says so: whoever is asked does not know.
    COPIES_NOTHING: Fault(COPIES_NOTHING.name, frozenset({COPY_MISSING, NOT_JUDGED})),
    CLEARED_UNWHOLE: Fault(CLEARED_UNWHOLE.name, frozenset({COPY_MISSING}), lies=True),
    MOVES_NOTHING: Fault(MOVES_NOTHING.name, frozenset({COPY_MISSING}), lies=True),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """What every fault is run with."""

    classpath: str
    work: Path
    tls: str

    def run(self, name: str, environment: Mapping[str, str] | None = None) -> Run:
        fleet = Fleet(new_folder(self.work, name), "memory", self.tls)
        if environment:
            fleet.environment = environment
        return Run(fleet, self.classpath, SEED, name)


def whole_by_its_own_word(run: Run) -> str:
    """What the product says of itself; `yes`, or what it lacks."""
    try:
        run.fleet.wait(timeout_s=NEVER_WHOLE_S)
    except FleetError as error:
        return str(error).split(": ", 2)[-1].split("; see `")[0][:300]
    return "yes"


def row(run: Run, fault: Fault, *, notes: Path | None = None, says: str = "") -> Document:
    """Has the judge look at the fleet as it is now, and judges the judge."""
    began = time.monotonic()
    says = says or whole_by_its_own_word(run)
    status = run.fleet.save_status("status")
    name = f"verdict-{run.name}-{len(list(run.fleet.folder.glob('judge/verdict-*')))}"
    verdict = run.judge().check(status=status, faults=run.incidents, name=name, notes=notes)
    return judged_row(fault, verdict, says=says, seconds=time.monotonic() - began)


def judged_row(fault: Fault, verdict: Document, *, says: str, seconds: float) -> Document:
    bookies = verdict.get("copies", {}).get("bookies", {})
    found = {name: bad for name, one in bookies.items() if (bad := one["owed"] - one["held"])}
    contradictions = verdict.get("statusContradicts", [])
    is_caught = (
        verdict["exitCode"] in fault.codes
        and (not fault.lies or bool(contradictions))
        and (not fault.bookie or set(found) == {fault.bookie})
    )
    told = {
        "fault": fault.name,
        "is_caught": is_caught,
        "expected": sorted(fault.codes),
        "exit_code": verdict["exitCode"],
        "product_says_whole": says,
        "copies_owed": verdict.get("copies", {}).get("owed", 0),
        "not_held": found,
        "findings": {name: few(told) for name, told in verdict.get("findings", {}).items()},
        "status_contradicts": contradictions,
        "seconds": round(seconds, 1),
    }
    print(
        f"{'as expected' if is_caught else 'NOT AS EXPECTED'}: {fault.name}: exit code "
        f"{told['exit_code']}, not held {found}, product says whole: {says}",
        flush=True,
    )
    return told


def few(told: object) -> object:
    """The first words of a list; anything else as it is."""
    return told[:WORDS_MAX] if isinstance(told, list) else told


def written(run: Run, strike: Callable[[], None]) -> Judge:
    """Writes for a while around the strike; the fleet is up."""
    judge = run.judge()
    writer = judge.write(seconds=10 * WRITE_S, seed=run.seed, options=WRITING)
    try:
        time.sleep(WRITE_S)
        strike()
        time.sleep(WRITE_S / 3)
    finally:
        run.say(f"{writer.stop()['acknowledged']} entries acknowledged")
    return judge


def kill(run: Run, bookie: str) -> None:
    run.fleet.kill(bookie)
    run.struck["SIGKILL"] += 1


def of_evidence(bench: Bench) -> Iterator[Document]:
    """Nothing planted, then faults in notes and on disks of a fleet of the product as it is."""
    run = bench.run("evidence")
    run.fleet.up()
    try:
        judge = written(run, lambda: kill(run, KILLED))
        yield row(run, CONTROL)
        notes = judge.notes.read_text(encoding="utf-8")
        forged = judge.folder / "forged-notes"
        forged.write_text(with_forged_ack(notes), encoding="utf-8")
        yield row(run, FORGED_ACK, notes=forged)
        run.fleet.down()
        place = flip_payload_byte(run.fleet.disks(FLIPPED), closed_ledgers(notes))
        run.fleet.up()
        yield row(run, FLIPPED_BYTE)
        run.fleet.down()
        yield of_rot(bench, run)
        run.fleet.down()
        flip(*place)
        lose_log(run.fleet, WITHOUT_LOG)
        run.fleet.up(paused=True)
        yield row(run, LOST_LOG)
    finally:
        run.fleet.down()


def of_rot(bench: Bench, run: Run) -> Document:
    """The same fleet, served by a product that does not look at checksums; it stays up."""
    overlay = Overlay(bench.work / "overlay-rot")
    sound, run.fleet.environment = run.fleet.environment, overlay.environment()
    try:
        with overlay.mutated(GIVES_OUT_ROT):
            run.fleet.up()
            return row(run, ROT)
    finally:
        run.fleet.environment = sound


def lose_log(fleet: Fleet, bookie: str) -> None:
    """Its largest log, and the index is made to say the same."""
    logs = list(logs_of(fleet.disks(bookie)))
    largest = max(logs, key=lambda log: log.stat().st_size)
    largest.unlink()
    fleet.rebuild_index(largest.parent.parent)


def of_product(bench: Bench, number: int, mutant: Mutant) -> Iterator[Document]:
    """One bug in the product of a fleet of its own."""
    overlay = Overlay(bench.work / f"overlay-{number}")
    with overlay.mutated(mutant):
        run = bench.run(f"mutant-{number}", overlay.environment())
        try:
            run.fleet.up()
            if mutant is MOVES_NOTHING:
                written(run, lambda: run.fleet.up(replicas=BOOKIES - 1))
            else:
                written(run, lambda: killed_again(run))
            yield row(run, OF_MUTANTS[mutant])
        finally:
            run.fleet.down()


def killed_again(run: Run) -> None:
    """Once it is up again, and has taken entries anew."""
    for _kill in range(KILLS):
        kill(run, KILLED)
        whole_by_its_own_word(run)
        time.sleep(WRITE_S / 5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="judge-mutants", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("build/proof/judge-mutants.json"))
    parser.add_argument(
        "--only", choices=["evidence", "0", "1", "2"], help="the others stay in the file"
    )
    parser.add_argument("--tls", choices=TLS_MODES, default=TLS_MODES[0], help="of the fleets")
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nobody is left behind
    try:
        classpath = build().classpath()
    except NoToolsError as error:
        print(f"SKIPPED: judge-mutants: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"judge-mutants: {error}")
        return 1
    bench = Bench(classpath, Path(tempfile.mkdtemp(prefix="judge-mutants-")), options.tls)
    print(f"judge-mutants: work folder {bench.work}", flush=True)
    began = time.monotonic()
    rows = [{**row, "revision": code_revision()} for row in rows_of(bench, options.only)]
    caught = sum(one["is_caught"] for one in rows)
    is_good = bool(rows) and caught == len(rows)
    if is_good:
        shutil.rmtree(bench.work)
    if options.only and options.json.exists():
        rows = merged(json.loads(options.json.read_text(encoding="utf-8"))["rows"], rows)
        caught = sum(one["is_caught"] for one in rows)
    figures = {
        "date": datetime.now(UTC).date().isoformat(),
        "planted": sum(one["fault"] != CONTROL.name for one in rows),
        "as_expected": caught,
        "seconds": round(time.monotonic() - began),
        "rows": rows,
    }
    line = f"judge-mutants: {caught} of {len(rows)} as expected, the one without a fault among them"
    tell("make judge-mutants", figures, path=options.json, line=line)
    return 0 if is_good else 1


def merged(before: Iterable[Document], rows: Iterable[Document]) -> list[Document]:
    """Those of before, with what was run anew in the place of what it was."""
    return list({one["fault"]: one for one in (*before, *rows)}.values())


def rows_of(bench: Bench, only: str | None) -> Iterator[Document]:
    """All, or those of one fleet; one that fails to run is a row that was not caught."""
    parts: dict[str, Callable[[], Iterator[Document]]] = {"evidence": lambda: of_evidence(bench)}
    for number, mutant in enumerate(OF_MUTANTS):
        parts[str(number)] = lambda n=number, m=mutant: of_product(bench, n, m)  # type: ignore[misc]
    for name, part in parts.items():
        if only in (None, name):
            try:
                yield from part()
            except (FleetError, AssertionError, subprocess.TimeoutExpired) as error:
                print(f"NOT AS EXPECTED: {name}: {error}", flush=True)
                yield {"fault": name, "is_caught": False, "exit_code": 1, "failed": str(error)}


if __name__ == "__main__":
    sys.exit(main())
