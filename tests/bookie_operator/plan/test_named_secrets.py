"""Secrets that the spec names: a condition, an event, and who waits; bookies that run go on."""

from dataclasses import replace

import pytest
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import MetadataView, NamedSecret
from bookie_operator.plan.actions import Action, InitialiseMetadata, RestartBookie, StartBookie
from bookie_operator.plan.named_secrets import LOGIN_FIELD
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import bookie, cluster, observed

FIELD = "authentication.usersSecret"
GOOD = NamedSecret(FIELD, "key users of Secret stock-users")
GONE = replace(GOOD, reason="SecretMissing", message="Secret stock-users is not there")
UNSEEN = replace(GOOD, reason="SecretsUnseen", message="secrets is forbidden")
PLAIN = cluster(tls={"mode": "Off"})
ASKS = cluster(
    tls={"mode": "Off"},
    authentication={"mechanisms": ["digest-md5"], "usersSecret": "stock-users"},
)


def look(
    *secrets: NamedSecret,
    of: BookieCluster = ASKS,
    runs: BookieCluster = ASKS,
    before: ClusterStatus | None = None,
    away: bool = False,
) -> Plan:
    """A pass over a fleet that runs as `runs` says; `away`: bookie-0 has no process yet."""
    special = [replace(bookie("bookie-0", of=runs), process=None, health=None)] if away else []
    seen = replace(observed(*special, of=runs, seconds=100), secrets=secrets)
    return plan(of, seen, before or ClusterStatus())


def condition(made: Plan) -> Condition | None:
    return made.status.condition(ConditionType.SECRETS_USABLE)


def begun(made: Plan) -> list[object]:
    return [one for one in made.actions if isinstance(one, StartBookie | RestartBookie)]


def test_a_spec_that_names_none_has_no_such_condition() -> None:
    assert condition(look(of=PLAIN, runs=PLAIN)) is None


@pytest.mark.parametrize(
    ("secret", "status", "reason", "message"),
    [
        (GOOD, "True", "AllUsable", GOOD.place),
        (GONE, "False", "SecretMissing", f"{FIELD}: Secret stock-users is not there"),
        (UNSEEN, "Unknown", "SecretsUnseen", "secrets is forbidden"),
    ],
)
def test_the_condition_names_it(
    secret: NamedSecret, status: str, reason: str, message: str
) -> None:
    found = condition(look(secret))
    assert found is not None
    assert (found.status, found.reason, found.message) == (status, reason, message)


def test_there_is_an_event_when_it_stops_to_work_and_when_it_works_again() -> None:
    bad = look(GONE, before=look(GOOD).status)
    assert [(one.reason, one.type) for one in bad.events if "stock-users" in one.message] == [
        ("SecretMissing", "Warning")
    ]
    assert not [one for one in look(GONE, before=bad.status).events if "Secret" in one.reason]
    again = look(GOOD, before=bad.status)
    assert [one.reason for one in again.events if "Secret" in one.reason] == ["SecretsUsable"]


def test_nobody_is_restarted_for_what_could_not_be_read() -> None:
    made = look(GONE, runs=PLAIN)
    assert not begun(made)
    assert ("Restart", "SecretMissing") in {(one.action, one.predicate) for one in made.refusals}
    assert begun(look(GOOD, runs=PLAIN))


def test_nobody_is_started_with_what_could_not_be_read() -> None:
    made = look(GONE, away=True)
    assert not begun(made)
    assert ("Start", "SecretMissing") in {(one.action, one.predicate) for one in made.refusals}
    assert begun(look(GOOD, away=True))


def test_who_may_not_look_lets_bookies_read_for_themselves() -> None:
    assert begun(look(UNSEEN, runs=PLAIN))


def test_bookies_that_run_go_on_and_the_cluster_is_available() -> None:
    made = look(GONE)
    assert not begun(made) and made.status.is_true(ConditionType.AVAILABLE)


def on_an_empty_store(login: NamedSecret) -> set[type[Action]]:
    """What a fleet's first pass does while its login to ZooKeeper is as `login` says."""
    seen = observed(replace(bookie("bookie-0", of=PLAIN), process=None, health=None), of=PLAIN)
    empty = MetadataView("zk://x/ledgers", reachable=True)
    made = plan(PLAIN, replace(seen, metadata=empty, secrets=(login,)), ClusterStatus())
    return {type(one) for one in made.actions}


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        (replace(GOOD, field=LOGIN_FIELD), InitialiseMetadata),
        (replace(GONE, field=LOGIN_FIELD), None),
        (replace(UNSEEN, field=LOGIN_FIELD), StartBookie),
        (GONE, InitialiseMetadata),
    ],
)
def test_nobody_makes_an_empty_store_the_clusters_without_its_login(
    login: NamedSecret, expected: type[Action] | None
) -> None:
    assert on_an_empty_store(login) == ({expected} if expected is not None else set())
