"""Verdicts kept under build/, so that a run which was interrupted goes on where it was.

A verdict holds while what it rests on is what it was: the mutated text and, for a mutant that was
noticed, the file of the test that noticed it; for a survivor, the tests that judged it, the text of
their files too. So a test that was added judges again the survivors that it reaches, and no others.
What such tests import besides (fakes, other modules) is not asked for: `--afresh` judges all again.
"""

import hashlib
import json
from collections.abc import Callable
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

    def read(self) -> None:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
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

    def _rests_on(self, task: Task, outcome: Outcome) -> str:
        tests = [outcome.by] if outcome.verdict in NOTICED else list(task.tests)
        files = sorted({test.partition("::")[0] for test in tests})
        return _short(json.dumps([tests, [[file, self.digest(file)] for file in files]]))


def _name(task: Task) -> str:
    return f"{task.mutant.file} {_short(task.mutant.text)}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
