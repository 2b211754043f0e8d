"""All runs by name: the protocols one by one, and any number of lives drawn from seeds."""

import re
from typing import Final

from bookie.storage.modes import DurabilityMode
from crash_bookie import boot_settings
from crash_lives import story_of
from crash_runs import REBUILDING, RUNS, Run

LIFE_IMAGES: Final = 60
LIVES: Final = 5
"""In every change; more with `--lives`."""


def life(seed: int) -> Run:
    """The life of a seed: one ledger disk or two, every mode."""
    settings = boot_settings([*DurabilityMode][seed % 3], disks=1 + seed % 2)
    return Run(f"life-{seed}", story_of(seed), settings, REBUILDING, LIFE_IMAGES)


def run_names(part: str, *, first_life: int = 1, lives: int = LIVES) -> list[str]:
    """Names with this in them; a single life also when it is none of those asked for."""
    if re.fullmatch(r"life-\d+", part):
        return [part]
    names = [run.name for run in RUNS]
    names += [f"life-{seed}" for seed in range(first_life, first_life + lives)]
    return [name for name in names if part in name]


def run_named(name: str) -> Run:
    """The run of exactly that name."""
    if name.startswith("life-"):
        return life(int(name.removeprefix("life-")))
    return next(run for run in RUNS if run.name == name)
