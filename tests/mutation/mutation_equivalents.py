"""Mutants that change nothing anybody could see, listed one by one in equivalent.toml.

An entry names a mutant by module, function and diff, so it survives edits elsewhere in the file. An
entry that fits no mutant any more is stale, and fails: the code that it spoke of has changed.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from mutation_operators import Mutant

PATH: Final = Path(__file__).parent / "equivalent.toml"
Key = tuple[str, str, str]


class EquivalentError(Exception):
    """The list says too little, or the same twice."""


def read(text: str) -> dict[Key, str]:
    """The reason of each."""
    found: dict[Key, str] = {}
    for entry in tomllib.loads(text).get("equivalent", []):
        key = (entry["module"], entry.get("function", ""), entry["diff"].strip())
        if key in found:
            raise EquivalentError(f"listed twice: {key}")
        if not entry.get("reason", "").strip():
            raise EquivalentError(f"no reason is given for {key}")
        found[key] = entry["reason"]
    return found


def stale(listed: Mapping[Key, str], mutants: Mapping[str, Iterable[Mutant]]) -> list[Key]:
    """Entries of these modules that fit no mutant."""
    known = {mutant.key for found in mutants.values() for mutant in found}
    return [key for key in listed if key[0] in mutants and key not in known]


def entry(mutant: Mutant, *, reason: str = "") -> str:
    """What to add to the list; a reason must be written beside it."""
    return (
        f'[[equivalent]]\nmodule = "{mutant.module}"\nfunction = "{mutant.function}"\n'
        f"diff = '''\n{mutant.diff}\n'''\nreason = \"{reason}\"\n"
    )
