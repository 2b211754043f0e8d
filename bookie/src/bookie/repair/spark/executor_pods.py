"""What became of the executor pods of one Spark application, asked of the API server itself.

Spark waits for executors without a word. Who gives up waiting must be able to say why: an image
that cannot be pulled, a pod that finds no node, a program that ends at once.
"""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bookie.repair.engine.driver_pod import DRIVER_LABEL, DriverPod

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S: Final = 5.0
PODS_MAX: Final = 50
PODS_NAMED_MAX: Final = 3
NOT_FOUND: Final = 404
FINISHED: Final = ("Succeeded", "Failed")


Ask = Callable[[str, str], Mapping[str, Any]]
"""A method and what follows `/pods` in the path; the API server's answer."""


@dataclass(frozen=True, slots=True)
class PodsApi:
    """The API server's pods of the driver's namespace. `account`: where its credentials lie."""

    driver: DriverPod
    account: Path = ACCOUNT

    def __call__(self, method: str, what: str) -> Mapping[str, Any]:
        """Raises OSError when it cannot be reached or refuses, ValueError for a foreign answer."""
        # Read each time: the token is renewed while a long repair runs.
        token = (self.account / "token").read_text(encoding="ascii").strip()
        trusted = ssl.create_default_context(cafile=self.account / "ca.crt")
        pods = f"{self.driver.api_server}/api/v1/namespaces/{self.driver.namespace}/pods"
        request = urllib.request.Request(
            f"https://{pods}{what}", headers={"Authorization": f"Bearer {token}"}, method=method
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trusted) as answer:
            pods_json: Mapping[str, Any] = json.load(answer)
            return pods_json


class ExecutorPods:
    """The executors' pods of one driver."""

    def __init__(self, driver: DriverPod, ask: Ask | None = None) -> None:
        self._selector = f"{DRIVER_LABEL}={driver.name}"
        self._ask = ask or PodsApi(driver)

    def story(self) -> str:
        """What holds them up, in words; also when the API server gives no list."""
        try:
            return story_of(self._list())
        except (OSError, ValueError) as error:
            return f"its pods cannot be listed: {error}"

    def delete_unfinished(self) -> None:
        """Take away those that still wait or run: they would hold resources until the Job goes."""
        for pod in self._list():
            if (pod.get("status") or {}).get("phase") not in FINISHED:
                self._delete(pod["metadata"]["name"])

    def _delete(self, name: str) -> None:
        try:
            self._ask("DELETE", f"/{name}")
        except urllib.error.HTTPError as error:
            if error.code != NOT_FOUND:  # gone meanwhile
                raise

    def _list(self) -> list[Mapping[str, Any]]:
        query = urllib.parse.urlencode({"labelSelector": self._selector, "limit": PODS_MAX})
        found = self._ask("GET", f"?{query}")["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))


class Patience:
    """Counts how long the work has been without any executor."""

    def __init__(self, deadline_s: float, *, now: float) -> None:
        self._deadline_s = deadline_s
        self._alone_since = now
        """When an executor was last there, or the work began."""

    def is_over(self, executors: int, *, now: float) -> bool:
        """True when none has been there for longer than the deadline."""
        if executors:
            self._alone_since = now
        return now - self._alone_since > self._deadline_s


def no_executors(driver: DriverPod, why: str, story: str) -> str:
    """That the work was given up, why, and what is known of the pods."""
    return (
        f"{why}; {driver.executors} executors of image {driver.image} were asked for in namespace "
        f"{driver.namespace}. {story or 'Nothing is known of their pods.'}"
    )


def story_of(pods: Iterable[Mapping[str, Any]]) -> str:
    """Each pod's trouble, the latest pods first; they all have the same, as a rule."""
    lines = [f"{pod['metadata']['name']}: {trouble_of(pod)}" for pod in pods]
    if not lines:
        return "no executor pod exists (may the service account create pods here?)"
    more = f" and {len(lines) - PODS_NAMED_MAX} more" if len(lines) > PODS_NAMED_MAX else ""
    return "; ".join(lines[-PODS_NAMED_MAX:][::-1]) + more


def trouble_of(pod: Mapping[str, Any]) -> str:
    """Why this pod does not run, as Kubernetes says it; its phase when it says nothing."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            if words := state.get(kind):
                code = f" with exit code {words['exitCode']}" if "exitCode" in words else ""
                return _joined(f"{kind}{code}, {words.get('reason', 'no reason')}", words)
    for condition in status.get("conditions") or ():
        if condition.get("status") == "False" and condition.get("type") == "PodScheduled":
            return _joined(condition.get("reason", "not scheduled"), condition)
    return _joined(status.get("reason") or status.get("phase") or "unknown", status)


def _joined(reason: str, words: Mapping[str, Any]) -> str:
    message = " ".join(str(words.get("message") or "").split())
    return f"{reason}: {message[:300]}" if message else reason
