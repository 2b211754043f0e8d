"""What happens to pods, processes and disks in real life, done behind the operator's back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from harness.containers import running_containers, signal_containers
from harness.fleet import Fleet, claim_name, pod_name, set_name
from harness.kind import Kind
from harness.kube import Object, wait_for

GONE_S: Final = 90.0
RUNNING_S: Final = 60.0
UNFLUSHED_S: Final = 60.0
UNFLUSHED_BYTES: Final = 200_000
"""Enough that a kill now forgets entries; the writer gives a bookie this much in a second."""
CONTAINER: Final = "bookie"
"""Of a bookie's pod, where its process is."""
DISKS: Final = ("journal", "ledger-0", "ledger-1")
INDEX_FILES: Final = "index.sqlite*"


class Faults:
    """Faults of one fleet on one kind cluster."""

    def __init__(self, kind: Kind, fleet: Fleet) -> None:
        self._kind = kind
        self._fleet = fleet
        self._kube = fleet.kube
        self.forgotten = 0
        """So many times a bookie was made to forget; each is an incident of the status."""

    # Processes and pods
    def kill(self, bookie: str) -> int:
        """SIGKILL while the bookie holds entries only in memory; the epoch that ended."""
        epoch = self._fleet.epoch(bookie)
        self._wait_unflushed(bookie)
        self.kill_now(bookie)
        self.forgotten += 1
        return epoch

    def kill_now(self, *bookies: str) -> None:
        """SIGKILL, all in one stroke."""
        self._signal("KILL", *bookies)

    def hang_and_force_delete(self, bookie: str) -> int:
        """The bookie hangs, somebody forces its pod away; the epoch that ended.

        One that does not hang would use the two seconds it still gets for its flush.
        """
        epoch = self.hang(bookie)
        self._kube("delete", "pod", pod_name(bookie), "--grace-period=0", "--force")
        self.forgotten += 1
        return epoch

    def hang(self, bookie: str) -> int:
        """It stands still while it holds entries only in memory, and lives; its epoch."""
        epoch = self._fleet.epoch(bookie)
        self._wait_unflushed(bookie)
        self._signal("STOP", bookie)
        return epoch

    @contextmanager
    def hung(self, bookie: str) -> Iterator[None]:
        """It stands still, and then goes on as if nothing had been."""
        self.hang(bookie)
        try:
            yield
        finally:
            self._signal("CONT", bookie)

    def _signal(self, signal: str, *bookies: str) -> None:
        pods = [self._running(bookie) for bookie in bookies]
        nodes = {str(pod["spec"]["nodeName"]) for pod in pods}
        for node in nodes:
            here = [pod for pod in pods if pod["spec"]["nodeName"] == node]
            mine = [running_containers(pod)[CONTAINER] for pod in here]
            signal_containers(self._kind, node, mine, signal)

    def _running(self, bookie: str) -> Object:
        """Its pod, which has a node, an address and a process: a rollout may just be replacing
        it."""

        def running() -> Object | None:
            pod = self._fleet.pod(bookie)
            runs = CONTAINER in running_containers(pod) and pod["status"].get("podIP")
            return pod if runs else None

        return wait_for(f"a process in the pod of {bookie}", running, seconds=RUNNING_S)

    def _wait_unflushed(self, bookie: str) -> None:
        wait_for(
            f"{bookie} to hold {UNFLUSHED_BYTES} bytes only in memory",
            lambda: self._fleet.has_unflushed(bookie, bytes_least=UNFLUSHED_BYTES),
            seconds=UNFLUSHED_S,
        )

    @contextmanager
    def cut_off(self, bookie: str) -> Iterator[None]:
        """No packet goes between the bookie's pod and another one; the kubelet still meets it."""
        pod = self._running(bookie)
        node, address = str(pod["spec"]["nodeName"]), str(pod["status"]["podIP"])
        rules = (f"FORWARD -s {address} -j DROP", f"FORWARD -d {address} -j DROP")
        self._kind.on_node(node, "; ".join(f"iptables -I {rule}" for rule in rules))
        try:
            yield
        finally:
            self._kind.on_node(node, "; ".join(f"iptables -D {rule}" for rule in rules))

    @contextmanager
    def cordoned(self, node: str) -> Iterator[None]:
        """No new pod is scheduled there meanwhile."""
        self._kube("cordon", node)
        try:
            yield
        finally:
            self._kube("uncordon", node)

    # Volumes
    def delete_claims(self, bookie: str, *disks: str) -> int:
        """PVCs and the pod that holds them: the volumes go; the epoch that ended."""
        epoch = self._fleet.epoch(bookie)
        claims = [claim_name(bookie, disk) for disk in disks]
        self._kube.delete("persistentvolumeclaim", *claims)
        self._kube.delete("pod", pod_name(bookie))
        self.forgotten += 1
        return epoch

    def folder(self, bookie: str, disk: str) -> tuple[str, str]:
        """Node and path of a volume's folder."""
        name = claim_name(bookie, disk)
        claim = self._kube.get("persistentvolumeclaim", name)
        assert claim is not None, f"no claim {name}"
        volume = self._kube.get("persistentvolume", claim["spec"]["volumeName"])
        assert volume is not None, f"claim {name} has no volume"
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        return str(terms[0]["matchExpressions"][0]["values"][0]), str(source["path"])

    def wipe(self, bookie: str, disk: str) -> None:
        node, path = self.folder(bookie, disk)
        self._kind.on_node(node, f"find {path} -mindepth 1 -delete")

    def lose_index(self, bookie: str, disk: str) -> None:
        """Of a bookie that is stopped: the index's files go, the log stays."""
        node, path = self.folder(bookie, disk)
        gone = self._kind.on_node(node, f"find {path} -name '{INDEX_FILES}' -print -delete")
        assert gone.strip(), f"no {INDEX_FILES} in {path} of {node}"

    def swap(self, first: tuple[str, str], second: tuple[str, str]) -> None:
        """The content of two disks changes places."""
        node, one = self.folder(*first)
        other_node, other = self.folder(*second)
        assert node == other_node, f"disks on {node} and {other_node} cannot be swapped here"
        self._kind.on_node(
            node,
            f"mkdir {one}.swap; {move(one, f'{one}.swap')}; {move(other, one)}; "
            f"{move(f'{one}.swap', other)}; rmdir {one}.swap",
        )

    def copy_aside(self, bookie: str, disk: str) -> None:
        node, path = self.folder(bookie, disk)
        self._kind.on_node(node, f"rm -rf {path}.aside; cp -a {path} {path}.aside")

    def put_back(self, bookie: str, disk: str) -> None:
        """The copy from before takes the folder's place, as a restored snapshot does."""
        node, path = self.folder(bookie, disk)
        self._kind.on_node(
            node,
            f"find {path} -mindepth 1 -delete; {move(f'{path}.aside', path)}; rmdir {path}.aside",
        )

    @contextmanager
    def stopped(self, *bookies: str) -> Iterator[None]:
        """Bookies stopped cleanly and held, the operator only looking on, while disks change."""
        self._pause()
        for bookie in bookies:
            self._scale(bookie, 0)
        for bookie in bookies:
            self._wait_gone(bookie)
        yield
        self._resume(*bookies)

    @contextmanager
    def hung_and_held(self, bookie: str) -> Iterator[None]:
        """One that hung and was forced away, so that nothing says it stopped, and is held."""
        self._pause()
        self.hang(bookie)
        self.forgotten += 1
        self._scale(bookie, 0)
        self._kube("delete", "pod", pod_name(bookie), "--grace-period=0", "--force")
        self._wait_gone(bookie)
        yield
        self._resume(bookie)

    def _pause(self) -> None:
        self._fleet.change({"paused": True})
        self._fleet.wait_condition("Paused")

    def _resume(self, *bookies: str) -> None:
        for bookie in bookies:
            self._scale(bookie, 1)
        self._fleet.change({"paused": False})

    def _wait_gone(self, bookie: str) -> None:
        name = pod_name(bookie)
        wait_for(
            f"{name} to be gone",
            lambda: self._kube.get("pod", name) is None,
            seconds=GONE_S,
        )

    def _scale(self, bookie: str, replicas: int) -> None:
        self._kube("scale", "statefulset", set_name(bookie), f"--replicas={replicas}")


def move(source: str, target: str) -> str:
    """Shell: everything in one folder, hidden files included, into another."""
    return f"find {source} -mindepth 1 -maxdepth 1 -exec mv -t {target} {{}} +"
