"""Mutants of a module, made once for its text and kept under build/: all of the core take minutes.

A file is named by the digest of the text, and of the operators' own source and release, so nothing
there is ever stale.
"""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mutation_operators
from mutation_operators import Mutant, mutants_of


def made(module: str, file: str, text: str, *, folder: Path) -> list[Mutant]:
    """As `mutants_of` makes them."""
    path = folder / f"{module}-{_digest(text)}.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        mutants = mutants_of(module, file, text)
        folder.mkdir(parents=True, exist_ok=True)
        content = [{**asdict(mutant), "original": ""} for mutant in mutants]
        path.write_text(json.dumps(content), encoding="utf-8")
        return mutants
    return [_mutant(one, text) for one in kept]


def _mutant(one: dict[str, Any], text: str) -> Mutant:
    lines, change = (tuple(one.pop(name)) for name in ("lines", "change"))
    return Mutant(**{**one, "lines": lines, "change": change, "original": text})


def _digest(text: str) -> str:
    return hashlib.sha256(f"{_operators()}\0{text}".encode()).hexdigest()[:16]


@cache
def _operators() -> str:
    source = Path(mutation_operators.__file__).read_text(encoding="utf-8")
    return f"{version('mutmut')}\0{source}"
