"""No false finding on Spark either, while everything moves between what its tasks ask."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import churn_lab
import live_churn
import pytest
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest, Checks, audit
from bookie.repair.jobs.job import open_engine
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports import findings_report as telling
from bookie.repair.reports import result as report
from bookie_processes import started
from churn_lab import Planted, expected, found_in, served_churning
from live_churn import BOOKIES, CHURNERS, churning

pytestmark = pytest.mark.process
PLANTED = 350
CHANGE_KINDS = 6
FORGETFUL = {"collectIntervalSeconds": 0.5, "collectGraceSeconds": 0.5, "collectShareMax": 1}
"""What is deleted goes while it is looked at."""
SETTINGS = AuditSettings(grace_s=0.1)


@pytest.fixture(autouse=True)
def every_finding_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (report, telling):
        monkeypatch.setattr(module, "FINDINGS_MAX", 10 * PLANTED)


async def check(
    cluster: Cluster, spark: Any, planted: Planted, racks: Any, *, is_deep: bool
) -> None:
    """An audit on Spark finds what was planted, and no more."""
    found = await audit(
        cluster,
        AuditRequest(
            engine="spark-local",
            settings=SETTINGS,
            digests=DigestSettings() if is_deep else None,
            checks=Checks(racks=racks),
        ),
        engines=partial(open_engine, session=spark),
    )
    assert found_in(found["findings"]) == expected(planted, is_deep=is_deep)
    assert {row["ledger_id"] for row in found["misplaced"]} == planted.misplaced
    assert found["silent_bookies"] == [] and found["audit"]["unknown"] == 0


async def test_spark_finds_a_thousand_planted_findings_of_real_bookies_and_no_other(
    zookeeper_url: str, tmp_path: Path, spark: Any
) -> None:
    async with open_cluster(zookeeper_url) as cluster:
        await cluster.store.initialise()
        async with started(cluster.store, BOOKIES, tmp_path, zookeeper_url, **FORGETFUL):
            planted = await live_churn.plant(cluster, random.Random(7), each=PLANTED)
            async with churning(cluster, range(CHURNERS)) as done:
                for is_deep in (False, True):
                    done.clear()
                    while len(done) < CHANGE_KINDS or sum(done.values()) <= 100:
                        await check(cluster, spark, planted, live_churn.RACKS, is_deep=is_deep)


@pytest.mark.parametrize("is_deep", [False, True])
async def test_spark_finds_nothing_in_what_moves_between_any_two_answers(
    zookeeper_url: str, spark: Any, is_deep: bool
) -> None:
    async with served_churning(zookeeper_url, 3, chance=0.6) as (lab, churn, cluster):
        await churn.begin(100)
        planted = await churn_lab.plant(lab, random.Random(7), each=20)
        racks = {bookie_id: f"/rack-{n % 3}" for n, bookie_id in enumerate(lab.ids)}
        async with beside(churn.run()):
            await check(cluster, spark, planted, racks, is_deep=is_deep)
    assert len(churn.done) == CHANGE_KINDS


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work that goes on meanwhile; its error is the test's."""
    task = asyncio.create_task(work)
    yield
    assert not task.done() or task.result()
    task.cancel()
