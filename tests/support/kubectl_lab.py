"""What the tests of `kubectl bookie` are written in: clusters, and a fake kubectl on PATH."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from bookie_operator.kubectl.__main__ import plugin
from bookie_operator.kubectl.client import Kubectl
from bookie_operator.model.cluster import BookieCluster
from click.testing import CliRunner, Result

CLUSTERS = Path(__file__).parent.parent / "bookie_operator/kubectl/clusters"


def tree_of(name: str) -> dict[str, Any]:
    """One of the clusters that the tests know: healthy, limbo, approval, blocked."""
    tree: dict[str, Any] = json.loads((CLUSTERS / f"{name}.json").read_text())
    return tree


def cluster_of(name: str) -> BookieCluster:
    return BookieCluster.model_validate(tree_of(name))


class FakeLab:
    """A folder that stands for an API server. Its namespace is `books`."""

    user = "ann"

    def __init__(self, root: Path) -> None:
        self._root = root / "server"
        for plural in ("bookieclusters", "bookietasks", "events"):
            (self._root / "objects" / plural).mkdir(parents=True)
        program = root / "bin" / "kubectl"
        program.parent.mkdir()
        fake = Path(__file__).parent / "fake_kubectl.py"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -ES "{fake}" "$@"\n')
        program.chmod(0o755)
        self.env = {"PATH": f"{program.parent}:{os.defpath}", "FAKE_KUBECTL": str(self._root)}

    def run(self, *words: str, stdin: str = "") -> Result:
        """The plugin as a person runs it."""
        as_in_a_pipe = {"COLUMNS": None}  # whoever runs the tests may have set it
        return CliRunner(env=as_in_a_pipe | self.env).invoke(
            plugin, words, input=stdin, prog_name="kubectl bookie"
        )

    def answer_by(self, script: str) -> None:
        """From now on this script is kubectl."""
        program = Path(self.env["PATH"].partition(":")[0]) / "kubectl"
        program.write_text(f"#!/bin/sh\n{script}\n")

    def kubectl(self, *flags: str) -> Kubectl:
        return Kubectl(flags)

    def put(self, plural: str, tree: dict[str, Any]) -> None:
        path = self._root / "objects" / plural / f"{tree['metadata']['name']}.json"
        whole = path.with_suffix(".new")  # a watch must not see half of it
        whole.write_text(json.dumps(tree))
        whole.replace(path)

    def put_cluster(self, state: str, **metadata: Any) -> None:
        tree = tree_of(state)
        tree["metadata"] |= metadata
        self.put("bookieclusters", tree)

    def get(self, plural: str, name: str) -> dict[str, Any]:
        tree: dict[str, Any] = json.loads(
            (self._root / "objects" / plural / f"{name}.json").read_text()
        )
        return tree

    def set_status(self, plural: str, name: str, status: dict[str, Any]) -> None:
        tree = self.get(plural, name)
        tree["status"] = tree.get("status", {}) | status
        self.put(plural, tree)

    def delete(self, plural: str, name: str) -> None:
        (self._root / "objects" / plural / f"{name}.json").unlink()

    def later(self, name: str, *changes: dict[str, Any] | None) -> None:
        """What a watch of the object brings about, in this order."""
        self._steps(self._root / "later" / name, changes)

    def end_tasks(self, kind: str, *statuses: dict[str, Any]) -> None:
        """How tasks of that type go on, once they are created and watched."""
        self._steps(self._root / "ends" / kind, [{"status": status} for status in statuses])

    def refuse(self, verb: str, complaint: str) -> None:
        (self._root / "refused.json").write_text(json.dumps({verb: complaint}))

    def look_on(self) -> None:
        """Watches go on until their time is up."""
        (self._root / "live").touch()

    def calls(self) -> list[dict[str, Any]]:
        path = self._root / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def created(self) -> list[dict[str, Any]]:
        """The specs of the tasks that were handed in."""
        made = [call["text"] for call in self.calls() if call["words"][0] == "create"]
        return [json.loads(text)["spec"] for text in made]

    def forget(self, plural: str) -> None:
        """As if the CustomResourceDefinition was never installed."""
        (self._root / "objects" / plural).rmdir()

    @staticmethod
    def _steps(folder: Path, changes: Any) -> None:
        folder.mkdir(parents=True)
        for number, change in enumerate(changes):
            (folder / f"{number}.json").write_text(json.dumps(change))
