"""No false finding while everything moves, and none of 1,000 planted ones of each kind missed."""

import random

import pytest
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports import findings_report as telling
from bookie.repair.reports import result as report
from churn_lab import churning, expected, found_in, plant

PLANTED = 1000
SETTINGS = AuditSettings(grace_s=0.0, recheck_s=0.0)


@pytest.fixture(autouse=True)
def every_finding_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (report, telling):
        monkeypatch.setattr(module, "FINDINGS_MAX", 10 * PLANTED)


@pytest.mark.parametrize("is_deep", [False, True])
async def test_a_thousand_planted_findings_of_each_kind_and_no_other(is_deep: bool) -> None:
    lab, churn, cluster = await churning(seed=1, chance=0.5 if not is_deep else 0.2)
    await churn.begin(200)
    planted = await plant(lab, random.Random(7), each=PLANTED)
    digests = DigestSettings() if is_deep else None
    found = await audit(cluster, AuditRequest(settings=SETTINGS, digests=digests))
    assert found_in(found["findings"]) == expected(planted, is_deep=is_deep)
    assert {row["ledger_id"] for row in found["misplaced"]} == planted.misplaced
    assert found["silent_bookies"] == [] and found["audit"]["unknown"] == 0
    assert len(churn.done) == 6 and sum(churn.done.values()) > 300, churn.done


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("is_deep", [False, True])
async def test_nothing_that_moves_is_a_finding(seed: int, is_deep: bool) -> None:
    _lab, churn, cluster = await churning(seed=seed, chance=0.6)
    await churn.begin(30)
    digests = DigestSettings() if is_deep else None
    found = await audit(cluster, AuditRequest(settings=SETTINGS, digests=digests))
    assert found["findings"] == [] and found["misplaced"] == [], f"seed={seed} {churn.done}"
    assert found["exit_code"] == 0
