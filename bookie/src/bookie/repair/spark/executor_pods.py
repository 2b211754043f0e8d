"""What became of the executor pods of one Spark application, asked of the API server itself.

Spark waits for executors without a word. Who gives up waiting must be able to say why: an image
that cannot be pulled, a pod that finds no node, a program that ends at once.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol
from urllib.parse import quote

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.dynamic import DynamicClient
from urllib3.exceptions import HTTPError

from bookie.errors import UnavailableError
from bookie.repair.engine.driver_pod import DRIVER_LABEL, DriverPod, executor_pod

TIMEOUT_S: Final = 5.0
PODS_MAX: Final = 50
"""Pods in a page of a list: a job may have more, since those that failed stay."""
PAGES_MAX: Final = 40
PODS_NAMED_MAX: Final = 3
NOT_FOUND: Final = 404
FINISHED: Final = ("Succeeded", "Failed")


class Pods(Protocol):
    """The pods of the driver's namespace. UnavailableError: nobody can be asked, or it refuses."""

    def list(self, selector: str) -> list[Mapping[str, Any]]:
        """All of them, or PAGES_MAX pages."""

    def delete(self, name: str) -> None:
        """Whether it is there or not."""

    def refusal(self, pod: Mapping[str, Any]) -> str:
        """Why no such pod may be made now, in the words of who refuses; empty = it may be. None
        is made."""


class RefusedError(UnavailableError):
    """The API server has answered, and will not do it now."""


class ServedPods:
    """What the API server says of them to the account of this pod.

    Without typed models, which are 50 MiB; a client for each request, since the token is renewed
    while a long repair runs.
    """

    def __init__(self, namespace: str) -> None:
        self._path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        """URL path of the namespace's pods at the API server."""

    def list(self, selector: str) -> list[Mapping[str, Any]]:
        found, token = list[Mapping[str, Any]](), None
        for _page in range(PAGES_MAX):
            answer = self._ask(
                "get", self._path, label_selector=selector, limit=PODS_MAX, _continue=token
            )
            found += answer.get("items") or ()
            if not (token := (answer.get("metadata") or {}).get("continue")):
                break
        return found

    def delete(self, name: str) -> None:
        self._ask("delete", f"{self._path}/{quote(name)}", is_there=False)

    def refusal(self, pod: Mapping[str, Any]) -> str:
        try:
            self._ask("post", self._path, body=pod, dry_run="All")
        except RefusedError as error:
            return str(error)
        return ""

    def _ask(
        self, method: str, path: str, *, is_there: bool = True, **more: Any
    ) -> Mapping[str, Any]:
        configuration = Configuration()
        configuration.retries = False
        try:
            load_incluster_config(client_configuration=configuration)
            with ApiClient(configuration) as client:
                asked = DynamicClient(client, discoverer=lambda *_: None)
                answer: Mapping[str, Any] = asked.request(
                    method, path, serializer=lambda _client, found: found,
                    _request_timeout=TIMEOUT_S, **more,
                )  # fmt: skip
                return answer
        except ApiException as error:
            if error.status == NOT_FOUND and not is_there:
                return {}
            raise RefusedError(f"the API server refuses: {_words_of(error)}") from error
        except (ConfigException, HTTPError, OSError) as error:
            raise UnavailableError(f"the API server cannot be asked: {error}") from error


def _words_of(error: ApiException) -> str:
    """The message of a Status; else all that was answered."""
    with suppress(ValueError, AttributeError):
        return str(json.loads(error.body or "").get("message") or error.body)
    return str(error.body or error)


class ExecutorPods:
    """The executors' pods of one driver."""

    def __init__(self, driver: DriverPod, pods: Pods | None = None) -> None:
        self._driver = driver
        self._selector = f"{DRIVER_LABEL}={driver.name}"
        """Label selector of this driver's executors."""
        self._pods = pods or ServedPods(driver.namespace)

    def story(self) -> str:
        """What holds them up, in words; also when the API server gives no list.

        Spark says nothing of a pod that it may not make: where there is none, one is asked for.
        """
        try:
            found = self._list()
            refusal = "" if found else self._pods.refusal(executor_pod(self._driver))
            return refusal or story_of(found)
        except UnavailableError as error:
            return f"its pods cannot be listed: {error}"

    def delete_unfinished(self) -> None:
        """Take away those that still wait or run: they would hold resources until the Job goes."""
        for pod in self._list():
            if (pod.get("status") or {}).get("phase") not in FINISHED:
                self._pods.delete(pod["metadata"]["name"])

    def _list(self) -> list[Mapping[str, Any]]:
        found = self._pods.list(self._selector)
        return sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))


class ExecutorDeadline:
    """Counts how long the work has been without any executor."""

    def __init__(self, deadline_s: float, *, now: float) -> None:
        self._deadline_s = deadline_s
        self._alone_since = now
        """When an executor was last seen, or the work began."""

    def is_over(self, executors: int, *, now: float) -> bool:
        """True when none has been there for longer than the deadline."""
        if executors:
            self._alone_since = now
        return now - self._alone_since > self._deadline_s


def no_executors(driver: DriverPod, why: str, story: str) -> str:
    """The message when the work was given up without executors: why, and the state of their
    pods."""
    return (
        f"{why}; {driver.executors} executors of image {driver.image} were asked for in namespace "
        f"{driver.namespace}. {story or 'Nothing is known of their pods.'}"
    )


def story_of(pods: Iterable[Mapping[str, Any]]) -> str:
    """Why each pod does not run, newest pods first; usually all for the same reason."""
    lines = [f"{pod['metadata']['name']}: {trouble_of(pod)}" for pod in pods]
    if not lines:
        return "no executor pod exists"
    more = f" and {len(lines) - PODS_NAMED_MAX} more" if len(lines) > PODS_NAMED_MAX else ""
    return "; ".join(lines[-PODS_NAMED_MAX:][::-1]) + more


def trouble_of(pod: Mapping[str, Any]) -> str:
    """Why a pod does not run, in the words of Kubernetes; its phase if there are none."""
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
