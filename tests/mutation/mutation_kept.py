"""Verdicts kept under build/, so that a run which was interrupted goes on where it was; those of a
nightly sample also beside its report, since a machine of today has no build/ of yesterday.

A verdict holds while what it rests on is what it was: the mutated text and, for a mutant that was
noticed, the file of the test that noticed it; for a survivor, the tests that judged it, the text of
their files too. So a test that was added judges again the survivors that it reaches, and no others.
What such tests import besides (fakes, other modules) is not asked for: `--afresh` judges all again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutation_run import Task
from mutation_session import NOTICED, Outcome, Verdict

Digest = Callable[[str], str]
"""Of the file of a path from the root; empty when the file is gone."""


@dataclass(slots=True)
class Kept:
    """One line of JSON for each verdict; the last one of a mutant counts."""

    path: Path
    digest: Digest
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the digest of the mutated text, its file beside it."""

    def read(self, *more: Path) -> None:
        """Its own file last: that is the newest."""
        for path in (*more, self.path):
            if path.exists():
                self._read(path.read_text(encoding="utf-8"))

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue  # half a line: the run was ended while it wrote
            self.verdicts[one["mutant"]] = one

    def of(self, task: Task) -> Outcome | None:
        """What is known of it, if that still holds."""
        one = self.verdicts.get(_name(task))
        if one is None:
            return None
        outcome = Outcome(Verdict(one["verdict"]), one["by"], one["seconds"])
        return outcome if one["rests_on"] == self._rests_on(task, outcome) else None

    def last_of(self, task: Task) -> Outcome | None:
        """Its last verdict, also when files of tests have changed since."""
        one = self.verdicts.get(_name(task))
        return Outcome(Verdict(one["verdict"]), one["by"], one["seconds"]) if one else None

    def keep(self, task: Task, outcome: Outcome) -> None:
        """At once: the run may end at any moment."""
        if outcome.verdict is Verdict.ELSEWHERE:
            return
        one = {
            "mutant": _name(task),
            "verdict": outcome.verdict,
            "by": outcome.by,
            "seconds": outcome.seconds,
            "rests_on": self._rests_on(task, outcome),
        }
        self.verdicts[one["mutant"]] = one
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")

    def write(self, path: Path, tasks: Iterable[Task]) -> None:
        """Those of these mutants that hold, sorted: as few lines change as can."""
        lines = sorted(json.dumps(self.verdicts[_name(task)]) for task in tasks if self.of(task))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _rests_on(self, task: Task, outcome: Outcome) -> str:
        tests = [outcome.by] if outcome.verdict in NOTICED else list(task.tests)
        files = sorted({test.partition("::")[0] for test in tests})
        return _short(json.dumps([tests, [[file, self.digest(file)] for file in files]]))


def _name(task: Task) -> str:
    return f"{task.mutant.file} {_short(task.mutant.text)}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
