"""What is kept of a story: everything of its namespace when it failed, and everybody's times."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.commands import CommandError
from harness.fleet import BKC, BKT
from harness.kube import Kube
from harness.operator import Operator
from harness.settings import ARTIFACTS

KINDS: Final = (BKC, BKT, "pods", "statefulsets", "jobs", "pvc", "pdb", "configmaps")


def dump(kube: Kube, operator: Operator, folder: Path) -> None:
    """Manifests, events, the logs of every pod there and of the operator."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        _keep(folder / f"{kind.partition('.')[0]}.yaml", kube, "get", kind, "--output", "yaml")
    _keep(folder / "wide.txt", kube, "get", "pods,jobs,pvc,sts,pdb,bkc,bkt", "--output", "wide")
    _keep(folder / "events.txt", kube, "get", "events", "--sort-by", ".lastTimestamp")
    with contextlib.suppress(CommandError):
        for pod in kube.items("pods"):
            name = pod["metadata"]["name"]
            _keep(folder / f"{name}.txt", kube, "logs", name, "--all-containers", "--timestamps")
            _keep(folder / f"{name}.before.txt", kube, "logs", name, "--previous", "--timestamps")
    (folder / "operator.txt").write_text(operator.log(), encoding="utf-8")


def _keep(file: Path, kube: Kube, *words: str) -> None:
    try:
        text = kube(*words)
    except AssertionError as error:
        text = str(error)
        if file.name.endswith(".before.txt"):
            return
    file.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Time:
    """How long one story took."""

    letter: str
    title: str
    outcome: str
    seconds: float
    up_seconds: float
    """Of these, until the story's namespace was there and after its last claim."""
    numbers: Mapping[str, Any]


def keep_times(times: Sequence[Time]) -> Path:
    """One file for all runs: a story's newest time replaces its older one."""
    file = ARTIFACTS / "times.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = {}
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
    known |= {time.letter: asdict(time) for time in times}
    text = json.dumps(dict(sorted(known.items())), indent=1)
    file.write_text(text + "\n", encoding="utf-8")
    return file


def table(times: Sequence[Time]) -> list[str]:
    """Lines for people."""
    lines = [f"{'story':<8}{'outcome':<9}{'seconds':>8}{'around':>8}  what"]
    for time in times:
        numbers = ", ".join(f"{name} {value}" for name, value in time.numbers.items())
        lines.append(
            f"{time.letter:<8}{time.outcome:<9}{time.seconds:>8.1f}{time.up_seconds:>8.1f}"
            f"  {time.title}{': ' if numbers else ''}{numbers}"
        )
    return lines
