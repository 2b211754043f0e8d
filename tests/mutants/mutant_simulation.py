"""Whether the simulation of the real code finds a mutant, without any test written for it."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mutant import Mutant
from mutant_overlay import HERE, ROOT, Overlay
from mutant_seeds import READY

FIRST_TOLD = 3
"""Seeds whose findings the figures tell."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """`found`: seed -> the first thing that it saw violated. Seeds as `mutant_seeds` takes them."""

    mutant: Mutant
    seeds: tuple[str, ...]
    seconds: float
    found: dict[str, str] = field(default_factory=dict)


def simulate(overlay: Overlay, mutant: Mutant, seeds: Sequence[str], enough: int) -> Simulated:
    """Plants the bug, runs the seeds until `enough` have found it, and those committed for it."""
    began = time.monotonic()
    with overlay.mutated(mutant):
        ran, found = violations(overlay, seeds, enough=enough)
        committed, words = violations(overlay, [s for s in mutant.seeds if s not in ran])
        ran, found = [*ran, *committed], found | words
    return Simulated(mutant, tuple(dict.fromkeys(ran)), time.monotonic() - began, found)


def violations(
    overlay: Overlay, seeds: Sequence[str], *, enough: int = 0
) -> tuple[list[str], dict[str, str]]:
    """Seeds that ran on the overlay as it is now, and those of them with a violation.

    They run in order, until `enough` of them have one; 0: all.
    """
    ran: list[str] = []
    found: dict[str, str] = {}
    while (left := list(seeds[len(ran) :])) and not 0 < enough <= len(found):
        done = _run(overlay, left, enough - len(found) if enough else 0)
        ran += done
        found |= {seed: why for seed, why in done.items() if why}
        if len(done) < len(left) and not 0 < enough <= len(found):  # it ended within the next one
            ran.append(left[len(done)])
            found[left[len(done)]] = "the simulation did not end"
    return ran, found


def _run(overlay: Overlay, seeds: Sequence[str], enough: int) -> dict[str, str]:
    """What the seeds said, as far as the process came."""
    ended = subprocess.run(
        [sys.executable, HERE / "mutant_seeds.py", overlay.folder, str(enough), *seeds],
        cwd=ROOT,
        env=overlay.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    ready, *lines = ended.stdout.splitlines() or [""]
    if ready != READY:
        raise RuntimeError(f"the simulation cannot begin on {overlay.folder}: {ended.stderr}")
    said = map(json.loads, lines)
    return {line["seed"]: line["violation"] for line in said}


def row(simulated: Simulated) -> str:
    """One line for people, and one more on what was seen first."""
    missed = [seed for seed in simulated.mutant.seeds if seed not in simulated.found]
    lines = [
        f"{len(simulated.found):4} of {len(simulated.seeds)} seeds  {simulated.seconds:5.0f} s  "
        f"{simulated.mutant.name}"
    ]
    lines += [f"{'':19}{seed}: {why}" for seed, why in list(simulated.found.items())[:1]]
    lines += (
        [f"{'':19}committed for it, and finds it no more: {', '.join(missed)}"] if missed else []
    )
    return "\n".join(lines)


def figures(simulated: Simulated) -> dict[str, object]:
    """One row of the JSON file."""
    return {
        "name": simulated.mutant.name,
        "seeds": len(simulated.seeds),
        "found_in": len(simulated.found),
        "first": dict(list(simulated.found.items())[:FIRST_TOLD]),
        "committed": simulated.mutant.seeds,
        "seconds": round(simulated.seconds, 1),
    }
