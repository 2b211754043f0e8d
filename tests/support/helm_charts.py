"""Charts as helm renders them: objects to make claims about. Skips where helm is not installed."""

import copy
import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
OPERATOR: Final = ROOT / "charts" / "bookie-operator"
CLUSTER: Final = ROOT / "charts" / "bookie-cluster"
Object = dict[str, Any]


def helm(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    if shutil.which("helm") is None:
        pytest.skip("helm is not on PATH")
    command = ["helm", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@functools.cache
def template(chart: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    place = ("--namespace=ops", "--kube-version=1.34.0")
    return helm("template", "demo", chart, *place, *words)


def render(chart: Path, *words: str | Path) -> list[Object]:
    return copy.deepcopy(_rendered(chart, *words))


@functools.cache
def _rendered(chart: Path, *words: str | Path) -> list[Object]:
    done = template(chart, *words)
    assert done.returncode == 0, done.stderr
    return [tree for tree in yaml.safe_load_all(done.stdout) if tree]


def with_notes(folder: Path, chart: Path, *words: str | Path) -> list[Object]:
    """Rendered in a copy that has its notes in an object `Notes`: helm prints them only of what it
    installs."""
    copy = folder / "chart"
    shutil.copytree(chart, copy)
    notes = copy / "templates" / "NOTES.txt"
    text = f'{{{{ define "notes" }}}}{notes.read_text(encoding="utf-8")}{{{{ end }}}}'
    notes.with_name("notes.yaml").write_text(
        f'{text}\nkind: Notes\ntext: {{{{ include "notes" . | quote }}}}\n', encoding="utf-8"
    )
    notes.unlink()
    return render(copy, *words)


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [tree for tree in objects if tree["kind"] == kind]


def only(objects: list[Object], kind: str) -> Object:
    found = of_kind(objects, kind)
    assert len(found) == 1, f"found {len(found)} of {kind}, expected one"
    return found[0]


ALERTS: Final = tuple(
    f"--set=metrics.{name}.enabled=true" for name in ("prometheusRule", "bookies", "zookeeper")
)


def alert_rules() -> list[Object]:
    """Every alert of the operator's chart."""
    [group] = only(render(OPERATOR, *ALERTS), "PrometheusRule")["spec"]["groups"]
    return list(group["rules"])
