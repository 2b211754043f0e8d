"""What a running bookie must be restarted for, and what not."""

from typing import Any, Final

import pytest
from bookie.ids import BookieId
from bookie_operator.plan.actions import BookieTemplate, template_of
from operator_scenes import cluster

B0: Final = BookieId("bookie-0")
JOURNAL: Final = {"name": "journal", "role": "journal", "size": "1Gi"}
LEDGER: Final = {"name": "ledger-0", "role": "ledger", "size": "1Gi"}
SPEC: Final = {"image": "bookie:1", "storage": {"disks": [JOURNAL, LEDGER]}}
RESTARTING: Final[dict[str, Any]] = {
    "image": "bookie:2",
    "journalWriteData": True,
    "ack": "sync",
    "flushIntervalSeconds": 9,
    "compactionBytesPerSecondBusy": 2**20,
    "recoveryBytesPerSecondBusy": 2**20,
    "collectGraceSeconds": 60,
    "collectShareMax": 0.5,
    "cookieFix": {"policy": "Never"},
    "resources": {"limits": {"memory": "2Gi"}},
    "gracePeriodSeconds": 60,
    "restartedAt": "2026-11-25T08:00:00Z",
    "storage": {"disks": [JOURNAL, {**LEDGER, "name": "other"}]},
}
RESIZING: Final[dict[str, Any]] = {
    "size": "2Gi",
    "storageClass": "fast",
}
OTHERS: Final[dict[str, Any]] = {
    "replicas": 7,
    "quorum": {"ensemble": 4, "write": 3, "ack": 3},
    "cookieFix": {"policy": "Approve"},
    "repair": {"executors": 5},
    "audit": {"schedule": "@daily"},
    "paused": True,
}


def template(**spec: Any) -> BookieTemplate:
    return template_of(cluster(**(SPEC | spec)).spec, B0)


@pytest.mark.parametrize(
    ("mode", "revision"),
    [("Off", "013a1fe094e4"), ("Required", "8f15a69f3c8b")],
    ids=["as before there were rates", "as certificates came"],
)
def test_a_new_version_of_the_operator_restarts_no_bookie(mode: str, revision: str) -> None:
    assert template(tls={"mode": mode}).revision == revision


@pytest.mark.parametrize("field", RESTARTING)
def test_a_changed_setting_restarts_it(field: str) -> None:
    changed = template(**{field: RESTARTING[field]})
    assert changed.revision != template().revision
    assert changed != template()


@pytest.mark.parametrize("field", RESIZING)
def test_another_volume_does_not(field: str) -> None:
    changed = template(storage={"disks": [JOURNAL, {**LEDGER, field: RESIZING[field]}]})
    assert changed.revision == template().revision
    assert changed != template(), "the volume is to be changed"


@pytest.mark.parametrize("field", OTHERS)
def test_a_spec_that_differs_elsewhere_has_the_same_template(field: str) -> None:
    changed = template(**{field: OTHERS[field]})
    assert (changed, hash(changed)) == (template(), hash(template()))
    assert changed.revision == template().revision
