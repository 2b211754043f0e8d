"""What a running bookie must be restarted for, and what not; which actions take something away."""

from datetime import timedelta
from typing import Any, Final, get_args

import pytest
from bookie.ids import BookieId
from bookie.tls.principals import Role
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import (
    Action,
    ApproveCollection,
    ApproveCookieFix,
    BookieTemplate,
    CreateVolume,
    DeleteTask,
    Destructive,
    DiskTemplate,
    DrainBookie,
    DropAuthorities,
    ExpandVolume,
    InitialiseMetadata,
    IssueCertificate,
    MakeAuthority,
    PauseCollection,
    RemoveBookie,
    ReplaceBookie,
    ReplaceVolume,
    RestartBookie,
    SignWith,
    SpreadTrust,
    StartBookie,
    StartJob,
    StopJob,
    TlsTemplate,
    WithdrawCertificate,
    bookie_of,
    candidate_of,
    template_of,
)
from operator_scenes import cluster, holder

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


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("Off", None),
        ("Accepted", TlsTemplate(TlsMode.ACCEPTED, http=True)),
        ("Required", TlsTemplate(TlsMode.REQUIRED, http=True)),
    ],
)
def test_one_whose_ports_are_plain_has_no_template_of_tls(
    mode: str, expected: TlsTemplate | None
) -> None:
    assert template(tls={"mode": mode, "http": True}).tls == expected


# Actions

DISK: Final = DiskTemplate("journal", cluster().spec.storage.disks[0].role, "1Gi")
MINE: Final = holder(Role.BOOKIE, B0)
OF_ONE: Final[tuple[Action, ...]] = (
    CreateVolume(B0, DISK),
    StartBookie(template()),
    RestartBookie(template(), "bookie-0-1", "why"),
    ApproveCookieFix(B0, "plan-1", "ann"),
    ApproveCollection(B0, "plan-1", "ann"),
    ReplaceVolume(B0, "journal", "uid"),
    ReplaceBookie(B0, (("journal", "uid"),), "bookie-0-1", is_node_lost=False),
    ExpandVolume(B0, DISK),
    DrainBookie(B0),
    RemoveBookie(B0, "bookie-0-1", delete_volumes=False),
    StartJob("job", JobKind.REPAIR, "inline", 1, B0),
    IssueCertificate(MINE, (), timedelta(1), "aa", "why"),
    SpreadTrust(MINE, frozenset({"aa"})),
    WithdrawCertificate(MINE, "why"),
)
OF_ALL: Final[tuple[Action, ...]] = (
    InitialiseMetadata(),
    PauseCollection(paused=True),
    StartJob("job", JobKind.AUDIT, "inline", 1),
    StopJob("job", "why"),
    DeleteTask("task-1", "uid"),
    MakeAuthority(timedelta(1), frozenset(), signs=True),
    SignWith("aa"),
    DropAuthorities(frozenset({"aa"})),
    IssueCertificate(holder(Role.JOB), (), timedelta(1), "aa", "why"),
)


def test_every_action_is_of_a_bookie_or_of_the_whole_cluster() -> None:
    assert {type(one) for one in (*OF_ONE, *OF_ALL)} == set(get_args(Action)), "all are here"
    assert {bookie_of(one) for one in OF_ONE} == {B0}
    assert {bookie_of(one) for one in OF_ALL} == {""}


def test_what_takes_something_away_is_destructive_and_names_who_loses_it() -> None:
    said = {one for one in get_args(Action) if "Destructive" in (one.__doc__ or "")}
    assert said == set(get_args(Destructive))
    taking = [one for one in OF_ONE if isinstance(one, Destructive)]
    assert [candidate_of(one) for one in taking] == [B0] * len(said)
