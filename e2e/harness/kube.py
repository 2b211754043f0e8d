"""kubectl, and nothing else: one wrapper, JSON in and out, always with an explicit context."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from harness.commands import CommandError, run
from harness.settings import PATIENCE

Object = dict[str, Any]
Found = TypeVar("Found")
POLL_S: Final = 0.5


class LateError(AssertionError):
    """What was waited for did not come in time."""


def wait_for(what: str, look: Callable[[], Found | None], *, seconds: float) -> Found:
    """The first thing found that is neither None nor False; looks again until the deadline."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() >= deadline:
            raise LateError(f"after {seconds:.0f} s still waiting for {what}")
        time.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class Kube:
    """One cluster, and the namespace that is meant when none is said."""

    kubeconfig: Path
    context: str
    path: str
    """PATH of the commands."""
    namespace: str = "default"

    def within(self, namespace: str) -> "Kube":
        return Kube(self.kubeconfig, self.context, self.path, namespace)

    @property
    def environment(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": self.path}

    @property
    def whole_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def tool(self, *words: str, stdin: str | None = None, seconds: float = 60.0) -> str:
        """Any program, with this cluster's kubeconfig."""
        return run(words, stdin=stdin, seconds=seconds, environment=self.environment)

    def words(self, *words: str) -> list[str]:
        return ["kubectl", "--context", self.context, "--namespace", self.namespace, *words]

    def start(self, command: Sequence[str], out: IO[str]) -> "subprocess.Popen[str]":
        """A program that goes on beside the story, its output in a file."""
        return subprocess.Popen(
            list(command),
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.whole_environment,
        )

    def __call__(self, *words: str, stdin: str | None = None, seconds: float = 60.0) -> str:
        return self.tool(*self.words(*words), stdin=stdin, seconds=seconds)

    def helm(self, *words: str, seconds: float = 180.0) -> str:
        command = ("helm", "--kube-context", self.context, "--namespace", self.namespace)
        return self.tool(*command, *words, seconds=seconds)

    # Objects
    def get(self, kind: str, name: str) -> Object | None:
        """The object as it is now; None when there is none."""
        text = self("get", kind, name, "--ignore-not-found", "--output", "json")
        found: Object | None = json.loads(text) if text.strip() else None
        return found

    def items(self, kind: str, selector: str = "", *, everywhere: bool = False) -> list[Object]:
        words = ["--selector", selector] if selector else []
        words += ["--all-namespaces"] if everywhere else []
        found: list[Object] = json.loads(self("get", kind, "--output", "json", *words))["items"]
        return found

    def apply(self, *objects: Mapping[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self("apply", "--filename", "-", stdin=text)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> Object:
        """Merge a change into an object; as it is then."""
        patch = json.dumps(change)
        text = self("patch", kind, name, "--type", "merge", "--patch", patch, "--output", "json")
        found: Object = json.loads(text)
        return found

    def delete(self, kind: str, *names: str, wait: bool = False, seconds: float = 120.0) -> None:
        word = f"--wait={str(wait).lower()}"
        self("delete", kind, *names, "--ignore-not-found", word, seconds=seconds)

    def raw(self, path: str, *, post: Mapping[str, Any] | None = None) -> str:
        """The API server's own answer at a path."""
        if post is None:
            return self("get", "--raw", path)
        return self("create", "--raw", path, "--filename", "-", stdin=json.dumps(post))

    def logs(self, pod: str, *words: str) -> str:
        try:
            return self("logs", pod, *words)
        except CommandError as error:
            return error.output

    def events(self, name: str) -> list[Object]:
        """Events about the object of this name, oldest first."""
        found = [event for event in self.items("events") if _regarding(event) == name]
        return sorted(found, key=lambda event: str(event["metadata"]["creationTimestamp"]))


def _regarding(event: Object) -> str:
    return str((event.get("involvedObject") or {}).get("name", ""))


def current_context(path: str) -> str:
    """The context of whoever runs this; empty = none."""
    try:
        return run(("kubectl", "config", "current-context"), environment={"PATH": path}).strip()
    except (CommandError, FileNotFoundError):
        return ""


def kubeconfig_in_use() -> Path:
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(first) if first else Path.home() / ".kube" / "config"
