"""No false finding on Spark either: real bookies, and everything moves while tasks look at them."""

import random
from pathlib import Path
from typing import Any

import pytest
from bookie.repair import report, telling
from bookie.repair.audit import AuditSettings
from bookie.repair.audit_steps import Checks, audit
from bookie.repair.cluster import open_cluster
from bookie.repair.digests import DigestSettings
from bookie.repair.job import SparkJobs
from bookie_processes import started
from churn_lab import expected, found_in
from live_churn import BOOKIES, CHURNERS, RACKS, churning, plant

pytestmark = pytest.mark.process
PLANTED = 350
SETTINGS = AuditSettings(grace_s=0.2)


@pytest.fixture(autouse=True)
def every_finding_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (report, telling):
        monkeypatch.setattr(module, "FINDINGS_MAX", 10 * PLANTED)


async def test_spark_finds_a_thousand_planted_findings_and_no_other(
    zookeeper_url: str, tmp_path: Path, spark: Any
) -> None:
    jobs = SparkJobs(zookeeper_url, session=spark)
    async with open_cluster(zookeeper_url) as cluster:
        await cluster.store.initialise()
        async with started(cluster.store, BOOKIES, tmp_path, zookeeper_url):
            planted = await plant(cluster, random.Random(7), each=PLANTED)
            async with churning(cluster, range(CHURNERS)) as done:
                for digests in (None, DigestSettings()):
                    done.clear()
                    found = await audit(
                        cluster, engine="spark-local", settings=SETTINGS, digests=digests,
                        checks=Checks(racks=RACKS), spark=jobs.audit,
                    )  # fmt: skip
                    is_deep = digests is not None
                    assert found_in(found["findings"]) == expected(planted, is_deep=is_deep)
                    assert {row["ledger_id"] for row in found["misplaced"]} == planted.misplaced
                    assert found["silent_bookies"] == [] and found["audit"]["unknown"] == 0
                    assert len(done) == 6 and sum(done.values()) > 100, done
