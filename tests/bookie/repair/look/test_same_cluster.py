"""Input that does not belong together is refused, and named."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from bookie.errors import InconsistentError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Cookie
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.reports.progress_lines import say_nothing
from bookie.testing.metadata import FaultyStore
from repair_lab import AUDIT, RepairLab

CHANGES: list[Callable[[Cluster], Awaitable[object]]] = [
    lambda cluster: repair(cluster, RepairRequest()),
    lambda cluster: drain(cluster, DrainRequest(BookieId("bookie-0"), begin=True), say=say_nothing),
    lambda cluster: rereplicate(cluster, RereplicateRequest(), say=say_nothing),
]


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def test_a_bookie_of_another_cluster_is_named(lab: RepairLab) -> None:
    instance_id = await lab.store.instance_id()
    assert instance_id is not None
    ours = Cookie(lab.ids[0], ("/j",), ("/l",), instance_id)
    await lab.store.create_cookie(ours)
    await SameCluster.look(lab.store)
    await lab.store.create_cookie(replace(ours, bookie_id=lab.ids[1], instance_id="other"))
    with pytest.raises(InconsistentError, match=f"{instance_id}.*{lab.ids[1]} to other"):
        await audit(lab.cluster, AuditRequest(settings=AUDIT))


@pytest.mark.parametrize("work", CHANGES)
async def test_nothing_that_changes_a_cluster_begins_where_a_bookie_is_of_another(
    lab: RepairLab, work: Callable[[Cluster], Awaitable[object]]
) -> None:
    await lab.store.create_cookie(Cookie(lab.ids[1], ("/j",), ("/l",), "other"))
    with pytest.raises(InconsistentError, match="1 bookies belong to others"):
        await work(lab.cluster)
    assert lab.control.asked == []


async def test_no_cluster_is_no_clean_cluster() -> None:
    with pytest.raises(UnavailableError, match="correct the path"):
        await SameCluster.look(MemoryStore())


async def test_s38_a_run_begins_with_every_ledger_that_a_lagging_follower_does_not_show_yet(
    lab: RepairLab,
) -> None:
    lagging = FaultyStore(lab.store)
    await lagging.freeze_ledgers()
    await lab.ledger(entries=2, last=1)
    found = await audit(replace(lab.cluster, store=lagging), AuditRequest(settings=AUDIT))
    assert found["audit"]["ledgers"] == 1


async def test_s38_a_task_elsewhere_looks_behind_a_write_of_its_own(lab: RepairLab) -> None:
    same = await SameCluster.look(lab.store)
    lagging = FaultyStore(lab.store)
    await lagging.freeze_ledgers()
    ledger = await lab.ledger(entries=2, last=1)
    await same.check(lagging)
    assert [one async for one in lagging.ledger_ids()] == [ledger.ledger_id]


async def test_a_cluster_that_was_made_anew_meanwhile_is_refused(lab: RepairLab) -> None:
    await lab.ledger(entries=2, last=1)
    real = lab.control.answers

    async def made_anew(*asked: object) -> object:
        lab.store._cluster.instance_id = "new"  # type: ignore[attr-defined]
        return await real(*asked)  # type: ignore[arg-type]

    lab.control.answers = made_anew  # type: ignore[method-assign, assignment]
    with pytest.raises(InconsistentError, match="this is new"):
        await audit(lab.cluster, AuditRequest(settings=AUDIT))
