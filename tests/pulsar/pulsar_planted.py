"""A run with a bug in all bookies, which must turn red; and one without any, which must not."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.figures import code_revision, tell
from mutant import Mutant
from mutant_overlay import Overlay
from pulsar_claims import Document, Outcome

CONTROL: Final = "nothing is planted"
SHOWN_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Plant:
    """`stories`: those that are run. `turns`: words of the claims of which one must turn red."""

    mutant: Mutant | None
    stories: tuple[str, ...]
    turns: str = ""

    @property
    def name(self) -> str:
        return CONTROL if self.mutant is None else self.mutant.name


def chosen(plants: Iterable[Plant], only: Sequence[str]) -> list[Plant]:
    """Those that are seen by one of these stories, and no other story; none named: all."""
    if not only:
        return list(plants)
    cut = (replace(one, stories=tuple(s for s in one.stories if s in only)) for one in plants)
    return [one for one in cut if one.stories]


RunWith = Callable[[Path, tuple[str, ...], Mapping[str, str]], Outcome]
"""One run in a folder: these stories, this environment of all the fleet's processes."""


def is_caught(plant: Plant, outcome: Outcome) -> bool:
    """A fleet that does not come up, say, catches nothing."""
    if plant.mutant is None:
        return outcome.is_good
    return any(plant.turns in claim.words for claim in outcome.failed)


def rows(plants: Iterable[Plant], work: Path, run: RunWith) -> Iterator[Document]:
    for number, plant in enumerate(plants):
        folder = work / f"plant-{number}"
        folder.mkdir()
        began = time.monotonic()
        outcome = _outcome(plant, folder, run)
        red = [f"{one.words}: {one.detail}"[:300] for one in outcome.failed][:SHOWN_MAX]
        row: Document = {
            "planted": plant.name,
            "is_caught": is_caught(plant, outcome),
            "stories": list(plant.stories),
            "claims": len(outcome.claims),
            "red": red,
            "ended": outcome.error,
            "seconds": round(time.monotonic() - began, 1),
            "revision": code_revision(),
        }
        said = "as expected" if row["is_caught"] else "NOT AS EXPECTED"
        print(f"{said}: {plant.name}: {'; '.join(red) or 'nothing is red'}", flush=True)
        yield row


def _outcome(plant: Plant, folder: Path, run: RunWith) -> Outcome:
    overlay = Overlay(folder / "overlay")
    if plant.mutant is None:
        return run(folder, plant.stories, overlay.environment())
    with overlay.mutated(plant.mutant):
        return run(folder, plant.stories, overlay.environment())


def report(
    command: str, plants: Iterable[Plant], work: Path, run: RunWith, path: Path, more: Document
) -> bool:
    """Runs them all and writes what came of it; True where each was as expected."""
    began = time.monotonic()
    found = list(rows(plants, work, run))
    caught = sum(one["is_caught"] for one in found)
    figures = {
        "date": datetime.now(UTC).date().isoformat(),
        **more,
        "planted": sum(one["planted"] != CONTROL for one in found),
        "as_expected": caught,
        "seconds": round(time.monotonic() - began),
        "rows": found,
    }
    line = f"{command}: {caught} of {len(found)} as expected, the one without a bug among them"
    tell(command, figures, path=path, line=line)
    is_good = bool(found) and caught == len(found)
    if is_good:
        shutil.rmtree(work)
    return is_good
