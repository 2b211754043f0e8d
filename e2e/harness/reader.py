"""Someone who follows a page: its commands, one by one, in a shell of their own.

Every command runs as it is written. Three are met with what is there already: the cluster exists,
its node has another name, and images that were built once are not built again.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

from harness.commands import run
from harness.fleet import BKC, condition_of
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER
from harness.settings import IMAGES, ROOT, TAG
from harness.story import Story

COMMAND_S: Final = 360.0
WATCHED_S: Final = 300.0
NODE: Final = "kind-control-plane"
ALL_SERVE: Final = "--for=jsonpath='{.status.readyReplicas}'=4"
"""The line after which there is something to write to."""


def commands_of(text: str, heading: str) -> list[str]:
    """The lines of the first block of code below a heading, without comments."""
    section = text.partition(f"\n{heading}\n")[2]
    found = re.search(r"^```[a-z]*\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, f"no block of code below {heading!r}"
    lines = (re.sub(r"\s+#\s.*$", "", line).strip() for line in found[1].splitlines())
    return [line for line in lines if line]


class Reader:
    """A shell with a kubeconfig that names the story's namespace."""

    def __init__(self, story: Story, folder: Path) -> None:
        self._story = story
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_bytes(story.kube.kubeconfig.read_bytes())
        self._run(f"kubectl config use-context {story.kube.context}")
        self._run(f"kubectl config set-context --current --namespace {story.name}")

    def follow(self, line: str) -> None:
        """Do what the line says; a failure of it is the page's."""
        if line.startswith("kind create cluster"):
            return
        if line.startswith("make images load"):
            self._have_images(line)
        elif line.startswith("kubectl get bkc -w"):
            self._watch(line)
        elif line.startswith("kubectl delete bkc"):
            self._story.nothing_is_lost()
            self._run(line)
        else:
            self._run(line.replace(NODE, self._story.kind.nodes()[0]))
        if ALL_SERVE in line:
            self._story.fleet.follow()
            self._story.write(rate=120)

    def _have_images(self, line: str) -> None:
        tag = re.search(r"TAG=(\S+)", line)
        assert tag is not None, f"{line!r} names no TAG"
        for image in IMAGES:
            self._story.kind.load_as(image, f"{image.removesuffix(TAG)}{tag[1]}")

    def _watch(self, line: str) -> None:
        """Look on until the crash was found, told, and repaired."""
        with self._story.recording(self._story.folder / "watch.txt"):
            wait_for("an incident to be cleared", self._is_cleared, seconds=WATCHED_S)

    def _is_cleared(self) -> bool:
        cluster: Object = self._story.kube.get(BKC, CLUSTER) or {}
        incidents = (cluster.get("status") or {}).get("incidents") or []
        is_over = bool(incidents) and all(one["outcome"] == "Cleared" for one in incidents)
        return is_over and condition_of(cluster, "LimboPresent")["status"] == "False"

    def _run(self, line: str) -> str:
        bin_folder = str(Path(sys.executable).parent)
        path = f"{bin_folder}:{self._story.kube.path}"
        environment = {"KUBECONFIG": str(self._kubeconfig), "PATH": path}
        command = ("bash", "-c", f"cd '{ROOT}' && {line}")
        return run(command, seconds=COMMAND_S, environment=environment)

    def give_back(self) -> None:
        """Take away what a page that was not followed to its end left."""
        kube = self._story.kube
        if any(one["name"] == "bookie-operator" for one in self._releases()):
            kube.delete(BKC, CLUSTER, wait=True)
            kube.helm("uninstall", "bookie-operator")

    def _releases(self) -> list[Object]:
        found: list[Object] = json.loads(self._story.kube.helm("list", "--output", "json"))
        return found
