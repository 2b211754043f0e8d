"""Spark and the process itself give the same results, over real wires and a real ZooKeeper."""

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from bookie.errors import InconsistentError
from bookie.ids import EntryId
from bookie.metadata.embedded import EmbeddedZooKeeper
from bookie.metadata.layout import ledger_path
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.repair.engine.choice import EngineChoice
from bookie.repair.jobs.audit_job import AuditRequest, Checks, audit
from bookie.repair.jobs.job import open_engine
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.digests import DigestSettings
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import Scope
from bookie.repair.spark.engine import SparkEngine
from bookie.repair.spark.sources import AvailabilitySource, LedgersSource
from kazoo.client import KazooClient
from pyspark.sql.types import StructType
from repair_lab import AUDIT, SETTINGS, RepairLab
from served_lab import Document, served, stable

pytestmark = pytest.mark.process


async def damage(lab: RepairLab) -> None:
    """Ledgers closed, open and striped; one bookie loses its disk, one entry is lost for good."""
    for number in range(5):
        ensemble = (number % 4, (number + 1) % 4, (number + 2) % 4)
        await lab.ledger((0, ensemble), entries=20, last=19)
    await lab.ledger((0, (0, 1, 2, 3)), entries=40, last=39, write=2)
    await lab.ledger(entries=15, flush=False)
    await lab.ledger(entries=4, last=4)
    await lab.crash(1, wipe=True)


@pytest.fixture
def urls(zookeeper_server: EmbeddedZooKeeper, zookeeper_roots: Iterator[str]) -> list[str]:
    return [f"zk://{zookeeper_server.address}{next(zookeeper_roots)}" for _ in range(2)]


async def story(url: str, engine: str, spark: Any) -> tuple[Document, Document, Document]:
    """Damage, audit, repair, audit."""
    async with served(url) as (lab, cluster):
        await damage(lab)
        engines = partial(open_engine, session=spark)
        racks = Checks(racks=dict.fromkeys(lab.ids[:3], "/a") | {lab.ids[3]: "/b"})
        before = await audit(
            cluster, AuditRequest(engine=engine, settings=AUDIT, checks=racks), engines=engines
        )
        assert before["misplaced"] and before["copies"]
        request = RepairRequest(engine=engine, settings=SETTINGS)
        repaired = await repair(cluster, request, engines=engines)
        after = await audit(cluster, AuditRequest(engine=engine, settings=AUDIT), engines=engines)
        return before, repaired, after


async def test_spark_and_inline_give_the_same_results(urls: list[str], spark: Any) -> None:
    inline = await story(urls[0], "inline", None)
    spark_local = await story(urls[1], "spark-local", spark)
    assert [stable(one) for one in spark_local] == [stable(one) for one in inline]
    before, repaired, after = spark_local
    assert repaired["spark_app_id"] == before["spark_app_id"] == spark.sparkContext.applicationId
    assert repaired["executor_names"] == before["executor_names"] == [socket.gethostname()]
    assert repaired["progress"]["ledgers"] == repaired["ledgers"]["considered"]
    assert repaired["progress"]["bytes"] == repaired["bytes_copied"]
    assert repaired["entries_copied"] > 100 and repaired["losses"][0]["ranges"] == [[4, 4]]
    assert before["audit"]["unknown"] > 0 and before["audit"]["missing"] == 1
    assert (after["audit"]["unknown"], after["audit"]["lost"]) == (0, 1)


async def deep_story(url: str, engine: str, spark: Any) -> Document:
    """Ledgers whole, corrupt in both ways, short of entries, lost, and one bookie silent."""
    async with served(url) as (lab, cluster):
        for number in range(5):
            ledger = await lab.ledger((0, (0, 1, 2)), entries=20, last=19)
            if number < 2:
                lab.fleet[number].corrupt(ledger.ledger_id, EntryId(7))
        lab.fleet[2].fail_reads(ledger.ledger_id, [EntryId(3)])
        striped = await lab.ledger((0, (0, 1, 2, 3)), entries=40, last=39, write=2)
        lab.fleet[0].lose(striped.ledger_id, [EntryId(4)])
        await lab.ledger((0, (0, 1, 3)), entries=4, last=4)
        lab.fleet[3].down = True
        engines, digests = partial(open_engine, session=spark), DigestSettings()
        return await audit(
            cluster, AuditRequest(engine=engine, settings=AUDIT, digests=digests), engines=engines
        )


async def test_a_deep_audit_finds_the_same_on_both_engines(urls: list[str], spark: Any) -> None:
    inline = await deep_story(urls[0], "inline", None)
    spark_local = await deep_story(urls[1], "spark-local", spark)
    assert {**stable(spark_local), "bytes_read": 0} == {**stable(inline), "bytes_read": 0}
    assert spark_local["audit"]["corrupt"] == 3 and spark_local["audit"]["missing"] >= 4
    assert spark_local["executor_names"] == [socket.gethostname()]
    assert spark_local["bytes_read"] >= inline["bytes_read"] > 10_000


async def test_an_empty_cluster_is_clean_in_spark_too(zookeeper_url: str, spark: Any) -> None:
    async with served(zookeeper_url) as (_lab, cluster):
        engines = partial(open_engine, session=spark)
        found = await audit(cluster, AuditRequest(engine="spark-local"), engines=engines)
        request = RepairRequest(engine="spark-local", settings=SETTINGS)
        repaired = await repair(cluster, request, engines=engines)
    assert found["audit"]["ledgers"] == repaired["ledgers"]["considered"] == 0


async def test_the_tables_show_every_ledger_and_every_answer(
    zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url) as (lab, _cluster):
        ledger = await lab.ledger(entries=6, last=5)
        lab.fleet[2].down = True
        rows = await asyncio.to_thread(read_tables, zookeeper_url)
    assert [row["ledger_id"] for row in rows[0]] == [ledger.ledger_id]
    assert rows[0][0]["fragments"] == [{"first_entry_id": 0, "ensemble": lab.ids[:3]}]
    (audited,) = rows[1]
    held = {a["bookie_id"]: a["entries"] for a in audited["answers"]}
    assert [len(EntrySet.decode(held[bookie_id])) for bookie_id in lab.ids[:2]] == [6, 6]
    silent = audited["answers"][2]
    assert silent["status"] == Status.UNREACHABLE, "no answer is an answer with its status"


async def test_a_table_of_few_ledgers_still_has_work_for_every_executor(zookeeper_url: str) -> None:
    async with served(zookeeper_url) as (lab, _cluster):
        for _ in range(5):
            await lab.ledger(entries=1, last=0)
        table = LedgersSource({"metadata": zookeeper_url, "partitionsMin": "2"})
        parts = await asyncio.to_thread(table.reader(None).partitions)
    assert [len(part.ledger_ids) for part in parts] == [2, 2, 1]


def read_tables(url: str) -> list[list[Document]]:
    """Both tables, partition by partition, without a Spark job."""
    rows: list[list[Document]] = []
    for source in (LedgersSource({"metadata": url}), AvailabilitySource({"metadata": url})):
        reader = source.reader(StructType.fromDDL(source.schema()))
        batches = [b for part in reader.partitions() for b in reader.read(part)]
        rows.append([row for batch in batches for row in batch.to_pylist()])
    return rows


def write_node(url: str, path: str, data: bytes) -> None:
    """Past the store."""
    address, _, root = url.removeprefix("zk://").partition("/")
    zookeeper = KazooClient(address)
    zookeeper.start()
    zookeeper.set(f"/{root}/{path}", data)
    zookeeper.stop()
    zookeeper.close()


@pytest.mark.parametrize("engine", ["inline", "spark-local"])
@pytest.mark.parametrize("digests", [None, DigestSettings()])
async def test_a7_metadata_that_cannot_be_read_is_a_finding_whatever_the_engine(
    engine: str, digests: DigestSettings | None, zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url) as (lab, cluster):
        ledger, _other = [await lab.ledger(entries=1, last=0) for _ in range(2)]
        node = ledger_path(ledger.ledger_id)
        await asyncio.to_thread(write_node, zookeeper_url, node, b"garbage")
        engines = partial(open_engine, session=spark)
        found = await audit(
            cluster, AuditRequest(engine=engine, digests=digests, settings=AUDIT), engines=engines
        )
    (unreadable,) = found["unreadable_ledgers"]
    assert unreadable["ledger_id"] == ledger.ledger_id
    assert unreadable["message"].startswith(f"metadata of ledger {ledger.ledger_id} ")
    assert (found["audit"]["ledgers"], found["audit"]["ok"], found["exit_code"]) == (1, 1, 4)


@pytest.mark.parametrize("engine", ["inline", "spark-local"])
async def test_a7_a_repair_passes_by_metadata_that_cannot_be_read_whatever_the_engine(
    engine: str, zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url) as (lab, cluster):
        ledger, _other = [await lab.ledger(entries=1, last=0) for _ in range(2)]
        node = ledger_path(ledger.ledger_id)
        await asyncio.to_thread(write_node, zookeeper_url, node, b"garbage")
        engines = partial(open_engine, session=spark)
        result = await repair(cluster, RepairRequest(engine=engine), engines=engines)
    (blocked,) = result["blocked"]
    assert (blocked["ledger_id"], blocked["reason"]) == (ledger.ledger_id, "MetadataUnreadable")
    assert result["audit_after"]["ok"] == 1


class MadeAnew(SparkEngine):
    """The address leads elsewhere once tasks begin."""

    async def repair(self, *asked: Any) -> Any:
        await asyncio.to_thread(write_node, self._cluster.metadata_url, "INSTANCEID", b"new")
        return await super().repair(*asked)


async def test_a_repair_task_that_gets_to_another_cluster_refuses_and_writes_nothing(
    zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url) as (lab, cluster):
        await damage(lab)
        same = await SameCluster.look(lab.store)
        engines = partial(MadeAnew, session=spark)

        held = [lab.fleet[number].ledgers for number in range(4)]
        before = [{i: set(ledger.entries) for i, ledger in of_one.items()} for of_one in held]
        with pytest.raises(InconsistentError, match=f"began on .*{same.instance_id}; this is new"):
            await repair(cluster, RepairRequest(engine="spark-local"), engines=engines)
        after = [{i: set(ledger.entries) for i, ledger in of_one.items()} for of_one in held]
    assert after == before and before[1] != before[0]


@pytest.mark.parametrize("digests", [None, DigestSettings()])
async def test_a_task_that_gets_to_another_cluster_refuses(
    zookeeper_url: str, spark: Any, digests: DigestSettings | None
) -> None:
    async with served(zookeeper_url) as (lab, cluster):
        await lab.ledger(entries=1, last=0)
        scope = Scope(instance_id="cluster-of-before", digests=digests)
        with pytest.raises(InconsistentError, match=r"^the work began on the cluster cluster-of-b"):
            same = await SameCluster.look(cluster.store)
            choice = EngineChoice("spark-local", "asked for")
            engine = SparkEngine(choice, cluster, same, print, session=spark)
            await engine.survey(scope, lambda _looked_at: None)
