"""A small cluster where a pod of an IPv6-only cluster would be, in a network namespace like that.

What pods have is used as they have it: the environment of a bookie's container, the program of
ZooKeeper's, the settings that a repair's pod gives to Spark. It prints what it saw as JSON.
"""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

from bookie.client.bookkeeper_client import Client
from bookie.hosts import at_port
from bookie.ids import BookieId
from bookie.metadata.embedded import free_port
from bookie.metadata.store import RPC_ENDPOINT
from bookie.repair.engine.driver_pod import DriverPod, spark_conf
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.job import open_engine
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.look.cluster import Cluster
from bookie.repair.reports.progress_lines import say_nothing
from bookie.repair.runs import repair_cluster
from bookie.wire.identity import Identity
from bookie_operator.control import Addressee, GrpcControl
from bookie_processes import BookieProcess, Bookies, started, until_there

POD_IP: Final = os.environ["POD_IP"]
NAMES: Final = tuple(BookieId(f"bookie-{number}") for number in range(3))
VICTIM: Final = NAMES[1]
ENTRIES: Final = 30
AS_IN_PODS: Final = {"BOOKIE_HOST": POD_IP, "BOOKIE_BIND": "0.0.0.0"}
DRIVER: Final = DriverPod("[fd00::1]:443", POD_IP, "demo-repair", "data", "repair")


@contextmanager
def zookeeper(folder: Path, port: int) -> Iterator[str]:
    """As the operator starts it; the URL by which bookies find it."""
    words = ["-m", "bookie.metadata.server", "--directory", str(folder / "zookeeper")]
    words += ["--port", str(port), "--bind", "0.0.0.0"]
    with (folder / "zookeeper.txt").open("wb") as said:
        process = subprocess.Popen([sys.executable, *words], stdout=said, stderr=said)
    try:
        yield f"zk://{at_port(POD_IP, port)}/ledgers"
    finally:
        process.terminate()
        process.wait(30)


def is_ready(host: str, port: int) -> int:
    with urllib.request.urlopen(f"http://{at_port(host, port)}/readyz", timeout=5) as answer:
        return int(answer.status)


async def operators_view(target: str, meant: Identity) -> str:
    control = GrpcControl()
    try:
        health = await control.health(Addressee(target, meant))
        return "nobody" if health is None else health.phase.name
    finally:
        await control.close()


async def flushed(port: int) -> int:
    """The exit code of what a pod runs before its end, on its own loopback."""
    command = [sys.executable, "-m", "bookie", "flush", "--admin", f"127.0.0.1:{port}"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    return await process.wait()


async def of_ports(cluster: Cluster, bookies: Bookies) -> dict[str, Any]:
    """What those hear who come from outside a pod, or from inside."""
    ports = bookies[VICTIM].ports()
    info = (await cluster.store.bookies())[VICTIM]
    stock = info.endpoint(RPC_ENDPOINT)
    assert stock is not None
    meant = Identity(await cluster.store.instance_id() or "", VICTIM, info.boot_epoch)
    return {
        "stock": [stock.host, stock.port == ports["stock"]],
        "ready": [is_ready(host, ports["http"]) for host in (POD_IP, "127.0.0.1")],
        "operator": await operators_view(at_port(POD_IP, ports["admin"]), meant),
        "flush": await flushed(ports["admin"]),
    }


async def write(cluster: Cluster) -> int:
    """Closed and open ledgers; the entries that were acknowledged, by the victim too.

    A bookie that has acknowledged nothing of a ledger has nothing to forget of it.
    """
    async with Client(cluster.store) as client:
        for is_closed in (True, False):
            writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
            await writer.wait_acked(writer.append_many([b"x" * 100] * ENTRIES))
            await writer.close() if is_closed else writer.abandon()
    return 2 * ENTRIES


async def fall_into_limbo(cluster: Cluster, bookie: BookieProcess) -> int:
    """A bookie forgets what it had in memory; ledgers of which it must say so."""
    bookie.kill()
    await until_there(cluster.store, *(name for name in NAMES if name != VICTIM))
    bookie.start()
    await until_there(cluster.store, *NAMES)
    return await in_limbo(cluster)


async def in_limbo(cluster: Cluster) -> int:
    return sum(mark.limbo for mark in (await cluster.control.list_marks(VICTIM)).marks)


async def with_spark(cluster: Cluster, master: str) -> dict[str, Any]:
    """An audit whose driver has the address of this pod, as executors in other pods need it."""
    from bookie.repair.spark import session

    conf = spark_conf(DRIVER, Path("unused"))
    where = {name: conf[name] for name in ("spark.driver.host", "spark.driver.bindAddress")}
    environment = {"BOOKIE_SPARK_MASTER": master, "SPARK_LOCAL_IP": POD_IP}
    with (
        mock.patch.dict(session.ON_THIS_MACHINE, where),
        mock.patch.dict(os.environ, environment),
        session.spark_session() as spark,
    ):
        engines = partial(open_engine, session=spark)
        told = await audit(cluster, AuditRequest(engine="spark-local"), engines=engines)
        return {"ok": told["audit"]["ok"], "exit": told["exit_code"], "engine": told["engine"]}


async def story(folder: Path, url: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with open_cluster(url) as cluster:
        await cluster.store.initialise()
        async with started(cluster.store, NAMES, folder, url) as bookies:
            seen |= await of_ports(cluster, bookies)
            seen["written"] = await write(cluster)
            seen["limbo"] = await fall_into_limbo(cluster, bookies[VICTIM])
            mended = await repair_cluster(url, RepairRequest(engine="inline"), say=say_nothing)
            seen["repair"] = mended["exit_code"]
            seen["limbo_left"] = await in_limbo(cluster)
            seen["spark"] = await with_spark(cluster, sys.argv[2])
    return seen


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ.update(AS_IN_PODS)
    with zookeeper(folder, free_port()) as url:
        print(json.dumps(asyncio.run(story(folder, url))))


if __name__ == "__main__":
    main()
