"""Drains and re-replications in Spark's tasks: as in process, over real wires and a ZooKeeper."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import psutil
import pytest
from bookie.errors import InconsistentError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.embedded import EmbeddedZooKeeper
from bookie.metadata.opening import open_store
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.repair.engine.choice import EngineChoice
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.job import open_engine
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_move import Handover
from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.progress_lines import say_nothing
from bookie.repair.spark.engine import SparkEngine, was_moved
from repair_lab import AUDIT, SETTINGS, RepairLab
from served_lab import Document, served, stable

BOOKIES = 5
EVACUATION = EvacuationSettings(
    grace_s=0.0, ledgers_per_batch=3, ledgers_per_round=4, repair=SETTINGS
)
ENGINES = pytest.mark.parametrize("engine", ["inline", "spark-local"])


@pytest.fixture
def urls(zookeeper_server: EmbeddedZooKeeper, zookeeper_roots: Iterator[str]) -> list[str]:
    return [f"zk://{zookeeper_server.address}{next(zookeeper_roots)}" for _ in range(2)]


class Moving:
    """One served lab whose bookie 0 is to go, by this engine."""

    def __init__(self, lab: RepairLab, cluster: Cluster, engine: str, spark: Any) -> None:
        self.lab, self.cluster, self.engine = lab, cluster, engine
        self.leaving = lab.ids[0]
        self.engines = partial(open_engine, session=spark)

    async def ledgers(self, count: int) -> list[LedgerId]:
        made = [await self.lab.ledger(entries=20, last=19) for _ in range(count)]
        return [metadata.ledger_id for metadata in made]

    async def damage(self) -> None:
        """Whole, striped, open, corrupt; one that lacks an entry which only bookie 0 has."""
        await self.ledgers(5)
        await self.lab.ledger((0, (0, 1, 2, 3)), write=2, entries=40, last=39)
        await self.lab.ledger(entries=8)
        corrupt, short = await self.ledgers(2)
        self.lab.fleet[1].corrupt(corrupt, 7)
        for number in (1, 2):
            self.lab.fleet[number].lose(short, [4])

    async def lose(self) -> None:
        self.lab.fleet[0].down = True
        await self.lab.store.unregister(self.leaving)

    async def mark(self, ledger_id: LedgerId, number: int) -> None:
        missing = [self.lab.ids[number]]
        await self.lab.store.underreplication.mark(ledger_id, missing, now_ms=1)

    async def rereplicate(self) -> Document:
        request = RereplicateRequest((self.leaving,), self.engine, settings=EVACUATION)
        return await rereplicate(self.cluster, request, engines=self.engines, say=say_nothing)

    async def drain(self) -> Document:
        request = DrainRequest(self.leaving, self.engine, begin=True, settings=EVACUATION)
        return await drain(self.cluster, request, engines=self.engines, say=say_nothing)


async def lost_story(url: str, engine: str, spark: Any) -> tuple[Document, Document]:
    """A bookie is gone for good, two of its ledgers are marked, and one of others that lacks."""
    async with served(url, bookies=BOOKIES) as (lab, cluster):
        moving = Moving(lab, cluster, engine, spark)
        await moving.damage()
        other = await lab.ledger((0, (1, 2, 3)), entries=10, last=9)
        lab.fleet[1].lose(other.ledger_id, range(5))
        await moving.lose()
        for ledger_id, number in ((0, 0), (1, 0), (other.ledger_id, 1)):
            await moving.mark(LedgerId(ledger_id), number)
        return await moving.rereplicate(), await audit(cluster, AuditRequest(settings=AUDIT))


async def drained_story(url: str, engine: str, spark: Any) -> tuple[Document, Document]:
    async with served(url, bookies=BOOKIES) as (lab, cluster):
        moving = Moving(lab, cluster, engine, spark)
        await moving.damage()
        return await moving.drain(), await audit(cluster, AuditRequest(settings=AUDIT))


@pytest.mark.process
async def test_spark_re_replicates_as_the_process_does(urls: list[str], spark: Any) -> None:
    inline = await lost_story(urls[0], "inline", None)
    spark_local = await lost_story(urls[1], "spark-local", spark)
    assert [stable(one) for one in spark_local] == [stable(one) for one in inline]
    result = spark_local[0]
    assert (result["ledgers"]["moved"], result["ledgers"]["blocked"]) == (8, 1)
    assert result["marks"] == {"found": 3, "cleared": 3}
    assert result["spark_app_id"] == spark.sparkContext.applicationId
    assert result["executor_names"] == [socket.gethostname()]


@pytest.mark.process
async def test_spark_drains_as_the_process_does(urls: list[str], spark: Any) -> None:
    inline = await drained_story(urls[0], "inline", None)
    spark_local = await drained_story(urls[1], "spark-local", spark)
    assert [stable(one) for one in spark_local] == [stable(one) for one in inline]
    result = spark_local[0]
    assert (result["ledgers"]["moved"], result["ledgers_left"]) == (9, 0)
    counted = ("ledgers", "of", "entries", "bytes")
    assert [result["progress"][name] for name in counted] == [
        inline[0]["progress"][name] for name in counted
    ]


@pytest.mark.process
@ENGINES
async def test_no_round_begins_after_a_refusal(zookeeper_url: str, engine: str, spark: Any) -> None:
    async with served(zookeeper_url, bookies=BOOKIES) as (lab, cluster):
        moving = Moving(lab, cluster, engine, spark)
        await moving.ledgers(9)
        await moving.lose()
        flush = lab.control.flush

        async def switch_off(bookie_id: BookieId) -> Any:
            await lab.store.underreplication.set_enabled(False)
            return await flush(bookie_id)

        lab.control.flush = switch_off  # type: ignore[method-assign]
        result = await moving.rereplicate()
    at_once = {"inline": 3, "spark-local": 4}[engine]
    assert [row["reason"] for row in result["blocked"]] == ["SwitchedOff"]
    assert (result["ledgers"]["moved"], result["ledgers_left"]) == (at_once, 9 - at_once)
    assert (result["progress"]["ledgers"], result["progress"]["of"]) == (at_once, 9)


@pytest.mark.process
async def test_the_drivers_locks_are_held_while_tasks_move_and_given_back(
    zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url, bookies=BOOKIES) as (lab, cluster):
        moving = Moving(lab, cluster, "spark-local", spark)
        (ledger_id,) = await moving.ledgers(1)
        await moving.lose()
        other, flush, taken = await open_store(zookeeper_url), lab.control.flush, list[bool]()

        async def look_at_the_lock(bookie_id: BookieId) -> Any:
            taken.append(await other.underreplication.lock(ledger_id, holder="apache"))
            return await flush(bookie_id)

        lab.control.flush = look_at_the_lock  # type: ignore[method-assign]
        await moving.rereplicate()
        assert taken == [False]
        assert await other.underreplication.lock(ledger_id, holder="apache")
        await other.close()


def kill_workers() -> None:
    """SIGKILL to every Python worker of Spark: what its task did stays done, nobody is told."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # one that ended just now
            parent = process.parent()
            if parent is not None and "pyspark.daemon" in parent.cmdline():
                process.kill()


@pytest.mark.process
async def test_what_a_task_had_moved_before_it_was_killed_counts_as_moved(
    zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url, bookies=BOOKIES) as (lab, cluster):
        moving = Moving(lab, cluster, "spark-local", spark)
        await moving.ledgers(4)
        availability, killed = lab.control.availability, list[LedgerId]()

        async def kill_after_a_move(bookie_id: BookieId, ledger_ids: Any) -> Any:
            found = await lab.store.read_ledgers(ledger_ids)
            moved = [i for i, ledger in found.items() if not ledger.value.names(moving.leaving)]
            if moved and not killed:
                killed.extend(moved)
                kill_workers()
            return await availability(bookie_id, ledger_ids)

        lab.control.availability = kill_after_a_move  # type: ignore[method-assign]
        result = await moving.drain()
    assert killed and result["ledgers_left"] == 0
    assert result["ledgers"]["moved"] == result["progress"]["ledgers"] == 4
    assert result["audit_after"]["ok"] == 80


@pytest.mark.process
async def test_a_task_that_gets_to_another_cluster_moves_nothing(
    zookeeper_url: str, spark: Any
) -> None:
    async with served(zookeeper_url, bookies=BOOKIES) as (lab, cluster):
        (ledger_id,) = await Moving(lab, cluster, "", spark).ledgers(1)
        same, choice = SameCluster("cluster-of-before"), EngineChoice("spark-local", "asked for")
        handover = Handover(lab.ids[0], lab.ids[3:])
        engine = SparkEngine(choice, cluster, same, say_nothing, session=spark)
        with pytest.raises(InconsistentError, match="the work began on the cluster cluster-of-b"):
            await engine.move([Outcome(ledger_id)], handover, SETTINGS, lambda _outcomes: None)
        assert (await lab.metadata(ledger_id)).names(lab.ids[0])


# ---- whose move it was --------------------------------------------------------------------------


def ledger_on(*names: str) -> LedgerMetadata:
    fragments = (Fragment(EntryId(0), tuple(map(BookieId, names))),)
    return LedgerMetadata(
        LedgerId(1), len(names), 2, 1, fragments, state=LedgerState.CLOSED, last_entry_id=EntryId(9)
    )


TO_C = Handover(BookieId("a"), [BookieId("b"), BookieId("c")])


def test_a_ledger_that_names_whom_the_round_had_chosen_was_moved_by_it() -> None:
    assert was_moved(ledger_on("a", "b"), ledger_on("c", "b"), TO_C)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("a", "b"), ("a", "b")),
        (("a", "b"), ("d", "b")),
        (("d", "b"), ("d", "b")),
        (("a", "b", "c"), ("d", "b", "c")),
    ],
    ids=["it did not move", "somebody else chose", "it never named it", "nobody could take over"],
)
def test_any_other_move_is_somebody_elses(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert not was_moved(ledger_on(*before), ledger_on(*after), TO_C)
