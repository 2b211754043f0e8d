"""The person's own kubectl, run as a child: the plugin's only way to an API server.

So kubeconfig, contexts, logins and proxies work as they do for every other `kubectl` command, and
the person's own rights apply. What kubectl complains about becomes one sentence that says what was
found, what was expected, and what to do.
"""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from bookie.errors import BookieError
from bookie.user import user_name

from bookie_operator.model.base import GROUP

CLUSTERS: Final = f"bookieclusters.{GROUP}"
TASKS: Final = f"bookietasks.{GROUP}"
"""Full names: a short one may belong to somebody else's resource."""
NAMESPACE_FLAG: Final = "--namespace="
ANSWER_S: Final = 300.0
"""How long one call may take: kubectl has no limit of its own, and a login in a browser, which its
plugins wait for, takes a person minutes."""
END_S: Final = 5.0
"""How long a kubectl that is to end may take for it."""
_PREFIX: Final = re.compile(r"^(error: |Error from server( \(\w+\))?: )")
Tree = dict[str, Any]


class KubectlError(BookieError):
    """The API server, or the way to it, is not as the command needs it."""


class NotFoundError(KubectlError):
    """The named object is not there (the namespace may be another one)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch: ADDED (also for what was there before), MODIFIED or DELETED."""

    type: str
    found: Tree


class Kubectl:
    """kubectl with the flags that the person gave, such as `--namespace` and `--context`."""

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self.flags = tuple(flags)
        """What stands before each command: context, namespace and so on."""

    def get(self, resource: str, name: str) -> Tree:
        return self._json("get", resource, name)

    def get_all(self, resource: str, *, selector: str = "") -> list[Tree]:
        """Everything of `resource` in the namespace; `selector`: on fields."""
        words = ["get", resource, *([f"--field-selector={selector}"] if selector else [])]
        items: list[Tree] = self._json(*words)["items"]
        return items

    def create(self, manifest: Tree) -> Tree:
        return self._json("create", "--filename=-", text=json.dumps(manifest))

    def patch(self, resource: str, name: str, *, merge: Tree) -> Tree:
        return self._json("patch", resource, name, "--type=merge", f"--patch={json.dumps(merge)}")

    def user(self) -> str:
        """Who calls, by the API server's word; the name at this machine where it does not say."""
        try:
            found = self._json("auth", "whoami")
        except KubectlError:  # an API server before 1.28, or one that forbids it
            return user_name()
        return str(((found.get("status") or {}).get("userInfo") or {}).get("username") or "")

    def namespace(self) -> str:
        """The namespace that the flags and the kubeconfig come to."""
        given = [flag for flag in self.flags if flag.startswith(NAMESPACE_FLAG)]
        if given:
            return given[-1].removeprefix(NAMESPACE_FLAG)
        shown = self._run("config", "view", "--minify", "--output=json")
        contexts = json.loads(shown).get("contexts") or [{}]
        return str((contexts[0].get("context") or {}).get("namespace") or "default")

    def watch(self, resource: str, name: str, *, seconds: float | None = None) -> Iterator[Change]:
        """The object now and after every change, until the API server or the time ends it.

        A watch may end at any moment for reasons of the server's own: begin again, and what was
        missed shows as the object's present state.
        """
        limit = [] if seconds is None else [f"--request-timeout={max(1, round(seconds))}s"]
        words = ("get", resource, name, "--watch", "--output-watch-events", "--output=json")
        command = self._command(*words, *limit)
        begun = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8") as complaints:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=complaints, text=True, encoding="utf-8"
            )
            assert process.stdout is not None, "piped above"
            try:
                yield from _changes(process.stdout)
            finally:
                process.terminate()  # the reader has seen enough; after its own end a no-op
                process.stdout.close()
                code = _ended(process)
            # kubectl may call its own time limit an error; the caller's clock knows better.
            is_early = seconds is None or time.monotonic() - begun < seconds
            if code > 0 and is_early:
                complaints.seek(0)
                raise _error_of(complaints.read(), command)

    def _json(self, *words: str, text: str = "") -> Tree:
        answer: Tree = json.loads(self._run(*words, "--output=json", text=text))
        return answer

    def _run(self, *words: str, text: str = "") -> str:
        command = self._command(*words)
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, encoding="utf-8", timeout=ANSWER_S
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(
                f"kubectl {words[0]}: found no answer after {ANSWER_S:g} s, expected one within "
                "them: finish a login that waits for you, or check the API server and the way to "
                "it (kubectl version), and --context"
            ) from error
        if done.returncode != 0:
            raise _error_of(done.stderr, command)
        return done.stdout

    def _command(self, *words: str) -> list[str]:
        program = shutil.which("kubectl")
        if program is None:
            raise KubectlError(
                "found no kubectl on PATH, expected the one that this plugin is called from: "
                "install it, or add its directory to PATH"
            )
        return [program, *words, *self.flags]


def _ended(process: "subprocess.Popen[str]") -> int:
    """The exit code, once it has ended; one that does not heed its end is killed."""
    try:
        return process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _changes(lines: IO[str]) -> Iterator[Change]:
    """One JSON document a line, as kubectl prints the events of a watch."""
    for line in lines:
        if line.strip():
            event = json.loads(line)
            yield Change(event["type"], event["object"])


def _error_of(stderr: str, command: Sequence[str]) -> KubectlError:
    """kubectl's complaint in our own form: found, expected, what to do."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    complaint = lines[-1].strip() if lines else "nothing was said"
    found = _PREFIX.sub("", complaint)
    if "(NotFound)" in complaint:
        return NotFoundError(f"{found}: check the name and the namespace (-n)")
    if "doesn't have a resource type" in complaint:
        return KubectlError(
            f"{found}, expected the CustomResourceDefinitions of {GROUP}: install them with the "
            "operator (helm install bookie-operator charts/bookie-operator, or kubectl apply -f "
            "crds/), or choose another cluster with --context"
        )
    if "(Forbidden)" in complaint:
        return KubectlError(
            f"{found}; expected the right to do so: ask for a role that allows it, or act as "
            "somebody else with --context or --as"
        )
    for sign in ("(Unauthorized)", "logged in to the server"):
        if sign in complaint:
            return KubectlError(f"{found}: log in to the cluster again, or choose a --context")
    for sign in ("was refused", "no such host", "Unable to connect", "i/o timeout", "no such file"):
        if sign in complaint:
            return KubectlError(
                f"{found}; expected an API server: check --kubeconfig and --context "
                "(kubectl config current-context)"
            )
    if "context was not found" in complaint or found.startswith("context "):
        return KubectlError(f"{found}; expected one of kubectl config get-contexts")
    return KubectlError(found if lines else f"{' '.join(command[:3])}: {found}")
