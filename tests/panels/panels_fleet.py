"""One local fleet with figures: operator, bookies and ZooKeeper, as Prometheus scrapes them."""

import asyncio
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.errors import LedgerFencedError
from bookie.hosts import at_port, loopback
from bookie.ids import BookieId, EntryId
from bookie.metadata.embedded import free_port
from bookie.metadata.opening import open_store
from bookie_operator.local.down import down
from bookie_operator.local.faults import kill_bookie
from bookie_operator.local.stored import stored_cluster
from bookie_operator.local.up import NAMESPACE, Ports, add_task, up_detached
from bookie_operator.local.waiting import wait_whole
from bookie_operator.model.base import API_VERSION
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.platform.folders import LocalFolders, read_json
from prometheus_server import Source

WHOLE_WAIT_S = 120.0
POLL_S = 0.1
PAUSE_S = 0.05
ENTRIES = 20
"""Of one batch, read back at once."""
ENTRY_BYTES = 1000
BATCHES = 20
"""Of one ledger."""
QUIET = 8
"""Ledgers that lie open."""
QUORUM: dict[str, Any] = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2}


class Fleet:
    """A cluster of this name in a folder of its own. `spec`: what differs from the defaults.

    It has no TLS, so that exporter and writer need no credentials: figures are asked for here.
    """

    def __init__(self, folder: Path, name: str, **spec: Any) -> None:
        self.name = name
        self.folders = LocalFolders(folder / name)
        self._manifest = folder / f"{name}.yaml"
        head = {"apiVersion": API_VERSION, "kind": "BookieCluster", "metadata": {"name": name}}
        self._manifest.write_text(yaml.safe_dump(head | {"spec": {"tls": {"mode": "Off"}} | spec}))
        self._operator_port = free_port()

    async def up(self) -> None:
        """Until it is Available; the operator runs on."""
        await asyncio.to_thread(
            up_detached, self.folders, self._manifest, ports=Ports(metrics=self._operator_port)
        )

    async def down(self) -> None:
        if self.folders.exists:
            await asyncio.to_thread(
                down, self.folders, delete_volumes=True, report=lambda _line: None
            )

    async def kill(self, bookie: BookieId) -> None:
        await asyncio.to_thread(kill_bookie, self.folders, bookie)

    async def whole(self) -> None:
        """All serve, nothing is in limbo, an audit of now is clean."""
        await asyncio.to_thread(wait_whole, self.folders, timeout_s=WHOLE_WAIT_S)

    async def until(self, condition: ConditionType, *, is_true: bool) -> None:
        """Until its status says so."""
        async with asyncio.timeout(WHOLE_WAIT_S):
            while self.cluster.status.is_true(condition) is not is_true:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

    async def ask(self, name: str, **spec: str) -> None:
        """Hand in a BookieTask."""
        path = self._manifest.with_name(f"{name}.yaml")
        head = {"apiVersion": API_VERSION, "kind": "BookieTask", "metadata": {"name": name}}
        path.write_text(yaml.safe_dump(head | {"spec": {"cluster": self.name} | spec}))
        await asyncio.to_thread(add_task, self.folders, path)

    @property
    def cluster(self) -> BookieCluster:
        found = stored_cluster(self.folders)
        assert found is not None
        return found

    @property
    def zookeeper_port(self) -> int:
        tree = read_json(self.folders.zookeeper_file)
        assert tree is not None
        return int(tree["port"])

    def ports(self, kind: str) -> dict[str, int]:
        """Of this kind, of each bookie that runs."""
        found = {}
        for path in sorted(self.folders.bookies.glob("*/runtime.json")):
            with suppress(FileNotFoundError):
                tree = read_json(path)
                if tree is not None and tree["ports"].get(kind):
                    found[path.parent.name] = int(tree["ports"][kind])
        return found

    def sources(self, exporter_port: int) -> list[Source]:
        """As the chart's PodMonitors label them."""
        own = {"namespace": NAMESPACE, "cluster": self.name}
        bookies = [
            Source("bookies", port, own | {"pod": f"{self.name}-{bookie}-0"})
            for bookie, port in self.ports("http").items()
        ]
        return [
            *bookies,
            Source("operator", self._operator_port, {"namespace": NAMESPACE}),
            Source("zookeeper", exporter_port, own | {"pod": f"{self.name}-zookeeper-0"}),
        ]

    async def write(self, stopped: asyncio.Event) -> None:
        """Ledger after ledger, read back on the way; after a fence the next one. A few others lie
        open, as those of quiet topics do, and get an entry now and then."""
        store = await open_store(f"zk://{at_port(loopback(), self.zookeeper_port)}/ledgers")
        async with Client(store) as client:
            quiet = deque([await client.create_ledger(**QUORUM) for _ in range(QUIET)])
            for writer in quiet:
                await _append(writer)
            while not stopped.is_set():
                writer = await client.create_ledger(**QUORUM)
                with suppress(LedgerFencedError):
                    await _fill(client, writer)
                    await writer.close()
                with suppress(LedgerFencedError):
                    await _append(quiet[0])
                quiet.rotate()
            for writer in quiet:
                with suppress(LedgerFencedError):
                    await writer.close()
        await store.close()


async def _fill(client: Client, writer: LedgerWriter) -> None:
    for _ in range(BATCHES):
        await _append(writer)
        reader = await client.open_ledger(writer.ledger_id)
        if (last := await reader.read_lac()) >= 0:
            await reader.read(EntryId(max(0, last - ENTRIES)), last)
        await asyncio.sleep(PAUSE_S)


async def _append(writer: LedgerWriter) -> None:
    await writer.wait_acked(writer.append_many([b"x" * ENTRY_BYTES] * ENTRIES))
