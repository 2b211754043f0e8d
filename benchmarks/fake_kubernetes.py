"""A Kubernetes for `bench_operator`, as a process: API server, controllers and bookies.

Prints its URL, then answers one line of JSON to each line that it reads: see `COMMANDS`. Times are
taken here, where a strike and the request that answers it have the same clock; a reaction is the
first status or event that the operator writes about the struck cluster.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from bookie.metadata.session import ZooKeeperSession, ZooKeeperSettings
from bookie_operator.platform.kubernetes.api import (
    CLUSTER,
    EVENT,
    NODE,
    POD,
    STORAGE_CLASS,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.names import BOOKIE_LABEL
from fake_api_server import Asked, FakeApiServer
from fake_controllers import Controllers
from kubernetes_lab import LOCAL_PATH
from operator_scenes import manifest

from benchmarks.fake_bookies import NAME, FakeFleet

STEP_S: Final = 0.2
"""Between two looks of the controllers at what changed."""
NODES: Final = tuple(f"node-{number}" for number in range(10))
STRUCK: Final = "bookie-0"
STRIKES_SEED: Final = 1
REFUSED: Final = 400
NOTICED_MAX_S: Final = 60.0
WHOLE_MAX_S: Final = 240.0
POLL_S: Final = 0.1
QUIET_S: Final = 20.0
"""Without a status or an event for so long, the fleet is at rest: longer than a pass at rest."""
SPACING_S: Final = 1.0
"""Between two strikes, on average."""
ADDRESSES_BEGIN: Final = "127.77"
FOREIGN_ENV: Final = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(20)]


class FakeKubernetes:
    """All namespaces, each with one BookieCluster and pods of others."""

    def __init__(self, server: FakeApiServer, session: ZooKeeperSession) -> None:
        self.server = server
        self._session = session
        self.fleets: dict[str, FakeFleet] = {}
        self._changed: set[str] = set()
        """Namespaces that the controllers have to look at."""
        self._told_at = time.monotonic()
        """When the operator last wrote a status or an event."""
        self._noticed: dict[str, asyncio.Future[float]] = {}
        """By struck namespace."""
        server.hear = self._hear

    async def make(self, clusters: int, foreign: int, metadata: str) -> None:
        for node in NODES:
            info = {"bootID": f"boot-of-{node}"}
            self.server.cluster_wide.put(
                NODE, {"metadata": {"name": node}, "status": {"nodeInfo": info}}
            )
        self.server.cluster_wide.put(STORAGE_CLASS, LOCAL_PATH)
        self.server.namespace("operators")
        addresses = _addresses()
        for number in range(clusters):
            namespace = f"team-{number:03}"
            api = self.server.namespace(namespace)
            tell = api.watch
            api.watch = lambda kind, thing, gone, tell=tell, n=namespace: self._seen(  # type: ignore[misc]
                tell, n, (kind, thing, gone)
            )
            for other in range(foreign // clusters):
                api.put(POD, foreign_pod(other, node=NODES[other % len(NODES)]))
            controllers = Controllers(api, address_of=lambda _number: next(addresses), nodes=NODES)
            self.fleets[namespace] = FakeFleet(api, controllers, self._session)
            await self.fleets[namespace].make_cluster()
            api.put(CLUSTER, cluster_of(f"{metadata}/{namespace}/ledgers"))

    def _seen(self, tell: Callable[..., None], namespace: str, change: tuple[Any, ...]) -> None:
        tell(*change)
        self._changed.add(namespace)

    def _hear(self, asked: Asked) -> None:
        is_status = asked.verb == "update" and asked.target.kind == CLUSTER
        is_event = asked.target.kind == EVENT and asked.is_write
        if (is_status or is_event) and asked.code < REFUSED:
            self._told_at = asked.at
            waiting = self._noticed.get(asked.target.namespace)
            if waiting is not None and not waiting.done():
                waiting.set_result(asked.at)

    async def run_controllers(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            changed, self._changed = self._changed, set()
            for namespace in sorted(changed):
                self.fleets[namespace].api.now = self.server.clock()
                await self.fleets[namespace].step()

    # Commands

    async def settle(self) -> Object:
        """Seconds until every cluster was whole, and until nothing was told for a while."""
        began = time.monotonic()
        whole_s = await self._until(self._is_whole)
        await self._until(lambda: time.monotonic() - self._told_at > QUIET_S)
        return {"whole_s": whole_s, "quiet_s": max(0.0, self._told_at - began)}

    async def rest(self, seconds: float) -> Object:
        """Every request of so many seconds, by verb and kind."""
        begin, told_at = len(self.server.asked), self._told_at
        await asyncio.sleep(seconds)
        asked = self.server.asked[begin:]
        return {"seconds": seconds, "is_quiet": self._told_at == told_at, **_summary(asked)}

    async def strike(self, what: str, times: float) -> Object:
        """Seconds until each strike was noticed: on as many fleets, at moments by chance."""
        do = {"pod": self._delete_pod, "full": self._fill_disk}[what]
        chance = random.Random(f"{STRIKES_SEED} {what}")
        namespaces = chance.sample(list(self.fleets), int(times))
        struck = []
        for namespace in namespaces:
            struck.append(asyncio.ensure_future(self._struck(namespace, do)))
            await asyncio.sleep(2 * SPACING_S * chance.random())
        found = await asyncio.gather(*struck)
        for namespace in namespaces:
            self.fleets[namespace].read_only.clear()
            await self.fleets[namespace].register(STRUCK)
        return {"seconds": found}

    async def storm(self, what: str) -> Object:
        """Seconds until every status is right after all clusters were struck at once."""
        begin, began = len(self.server.asked), time.monotonic()
        noticed = [self.expect(namespace) for namespace in self.fleets]
        for namespace in self.fleets:
            {"pods": self._delete_pod_of, "specs": self._touch}[what](namespace)
        last = max(await asyncio.gather(*noticed)) - began
        middle = statistics.median(one.result() for one in noticed) - began
        whole_s = await self._until(self._is_whole)
        asked = self.server.asked[begin:]
        noticed_s = {"noticed_s": middle, "last_noticed_s": last}
        return {**noticed_s, "whole_s": whole_s + last, **_summary(asked)}

    async def sent(self) -> Object:
        """All that was asked since the start; `for_all_pods`: requests that others' pods answer."""
        asked = self.server.asked
        of_pods = [one for one in asked if one.target.kind == POD and one.verb in ("list", "watch")]
        for_all = sum("labelSelector" not in one.query for one in of_pods)
        return {"refused": _refused(asked), "for_all_pods": for_all, **_summary(asked)}

    def expect(self, namespace: str) -> asyncio.Future[float]:
        """When the operator next tells something of this cluster."""
        waiting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._noticed[namespace] = waiting
        return waiting

    async def _struck(self, namespace: str, do: Callable[[str], Awaitable[None]]) -> float:
        waiting = self.expect(namespace)
        began = time.monotonic()
        await do(namespace)
        async with asyncio.timeout(NOTICED_MAX_S):
            return await waiting - began

    async def _delete_pod(self, namespace: str) -> None:
        self._delete_pod_of(namespace)

    def _delete_pod_of(self, namespace: str) -> None:
        """As `kubectl delete pod` does."""
        api = self.fleets[namespace].api
        api.now = self.server.clock()
        names = [
            pod["metadata"]["name"]
            for pod in api.all(POD)
            if (pod["metadata"].get("labels") or {}).get(BOOKIE_LABEL) == STRUCK
        ]
        api.begin_deletion(POD, names[0])

    async def _fill_disk(self, namespace: str) -> None:
        """No object changes: only the bookie itself says so."""
        self.fleets[namespace].read_only.add(STRUCK)
        await self.fleets[namespace].register(STRUCK)

    def _touch(self, namespace: str) -> None:
        """A change of the spec that restarts nothing."""
        self.fleets[namespace].api.edit(
            CLUSTER, NAME, lambda one: one["spec"].update(audit={"schedule": "@daily"})
        )

    def _is_whole(self) -> bool:
        return all(fleet.is_whole for fleet in self.fleets.values())

    async def _until(self, is_so: Callable[[], bool]) -> float:
        began = time.monotonic()
        async with asyncio.timeout(WHOLE_MAX_S):
            while not is_so():  # noqa: ASYNC110 - nobody tells that all of them are
                await asyncio.sleep(POLL_S)
        return time.monotonic() - began


COMMANDS: Final = ("settle", "rest", "strike", "storm", "sent")


def cluster_of(metadata: str) -> Object:
    """Three bookies, their metadata in a ZooKeeper that is there."""
    made = manifest(replicas=3, metadata={"connect": metadata})
    return made | {"metadata": {"name": NAME}}


def foreign_pod(number: int, *, node: str) -> Object:
    """A pod of somebody else, of the usual size."""
    container = {"name": "web", "image": "example.com/web:1", "env": FOREIGN_ENV}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"name": "web", "ready": True, "restartCount": 0, "state": state}
    return {
        "metadata": {"name": f"web-{number}", "labels": {"app": "web", "tier": "front"}},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": [status]},
    }


def _addresses() -> Iterator[str]:
    for number in range(1, 1 << 16):
        yield f"{ADDRESSES_BEGIN}.{number >> 8}.{number & 255}"


def _summary(asked: Sequence[Asked]) -> Object:
    counts = Counter(f"{one.verb} {_plural(one)}" for one in asked)
    writes = sum(one.is_write for one in asked)
    sizes, objects = sum(one.size for one in asked), sum(one.objects for one in asked)
    return {"requests": counts, "writes": writes, "bytes": sizes, "objects": objects}


def _plural(asked: Asked) -> str:
    kind: Kind = asked.target.kind
    return f"{kind.plural}/{asked.target.part}" if asked.target.part else kind.plural


def _refused(asked: Sequence[Asked]) -> Object:
    """Answers that are no success, by code; 404 of a single object and 409 are usual."""
    return Counter(f"{one.code} {one.verb} {_plural(one)}" for one in asked if one.code >= REFUSED)


async def _serve(chosen: argparse.Namespace) -> None:
    hosts = chosen.metadata.removeprefix("zk://")
    session = await ZooKeeperSession.open(hosts, settings=ZooKeeperSettings())
    async with FakeApiServer().serving() as server:
        kubernetes = FakeKubernetes(server, session)
        await kubernetes.make(chosen.clusters, chosen.foreign, chosen.metadata)
        print(server.url, flush=True)
        controllers = asyncio.ensure_future(kubernetes.run_controllers())
        commands = asyncio.ensure_future(_answer_commands(kubernetes))
        done, _ = await asyncio.wait({controllers, commands}, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()


async def _answer_commands(kubernetes: FakeKubernetes) -> None:
    """Until nobody writes to our input any more."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await reader.readline():
        name, *words = line.decode().split()
        assert name in COMMANDS, name
        values = [float(word) if word.replace(".", "").isdecimal() else word for word in words]
        print(json.dumps(await getattr(kubernetes, name)(*values)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, required=True)
    parser.add_argument("--foreign", type=int, required=True)
    parser.add_argument("--metadata", required=True, help="zk://HOST:PORT")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
