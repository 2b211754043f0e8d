"""How often the simulation of the real code finds a mutant: in how many of so many seeds."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mutant import Mutant
from mutant_overlay import HERE, ROOT, Overlay
from mutant_seeds import READY

SIMULATED = "bookie/"
"""Where the code is that the simulation runs: it has no operator."""
FIRST_TOLD = 3
"""Seeds whose findings the figures tell."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """`found`: seed -> the first thing that it saw violated. Seeds as `mutant_seeds` takes them."""

    mutant: Mutant
    seeds: tuple[str, ...]
    seconds: float
    found: dict[str, str] = field(default_factory=dict)


def can_be_simulated(mutant: Mutant) -> bool:
    return all(patch.file.startswith(SIMULATED) for patch in mutant.patches)


def simulate(overlay: Overlay, mutant: Mutant, seeds: Sequence[str]) -> Simulated:
    """Plants the bug, runs the seeds and those committed for it, takes the bug out again."""
    began = time.monotonic()
    wanted = tuple(dict.fromkeys((*seeds, *mutant.seeds)))
    with overlay.mutated(mutant):
        found = violations(overlay, wanted)
    return Simulated(mutant, wanted, time.monotonic() - began, found)


def violations(overlay: Overlay, seeds: Sequence[str]) -> dict[str, str]:
    """Seed -> violation, for those that have one, on the overlay as it is now."""
    found: dict[str, str] = {}
    left = list(seeds)
    while left:
        done = _run(overlay, left)
        found |= {seed: why for seed, why in done.items() if why}
        left = left[len(done) :]
        if left:  # the process ended within the next one
            found[left.pop(0)] = "the simulation did not end"
    return found


def _run(overlay: Overlay, seeds: Sequence[str]) -> dict[str, str]:
    """What the seeds said, as far as the process came."""
    ended = subprocess.run(
        [sys.executable, HERE / "mutant_seeds.py", overlay.folder, *seeds],
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
