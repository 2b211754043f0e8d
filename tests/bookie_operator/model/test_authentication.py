"""`spec.authentication` and the login for ZooKeeper: what may stand there."""

import itertools
from typing import Any

import pytest
from bookie_operator.model.transition import check_transition
from operator_scenes import cluster
from pydantic import ValidationError

PASSWORDS = {"mechanisms": ["digest-md5"], "usersSecret": "stock-users"}
OUTSIDE = {"connect": "zk://zk.example.org:2181/ledgers"}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"authentication": {"mechanisms": []}}, "at least 1 item"),
        ({"authentication": {"mechanisms": ["gssapi"]}}, "mechanisms"),
        (
            {"authentication": {"mechanisms": ["digest-md5"]}},
            "usersSecret: found nothing, expected the name of a Secret",
        ),
        (
            {"authentication": {"mechanisms": ["tls"], "usersSecret": "stock-users"}},
            "usersSecret: found stock-users, expected nothing",
        ),
        ({"authentication": PASSWORDS | {"usersSecret": "../users"}}, "usersSecret"),
        (
            {"authentication": {"mechanisms": ["tls"]}, "tls": {"mode": "Off"}},
            "authentication.mechanisms: found tls, expected a tls.mode other than Off",
        ),
        (
            {"metadata": {"connect": "zks://zk:1/l"}, "tls": {"mode": "Off"}},
            "metadata.connect: found zks://, expected a tls.mode other than Off",
        ),
        (
            {"metadata": {"embedded": {}, "credentialsSecret": "zk-login"}},
            "credentialsSecret: found zk-login, expected none beside embedded",
        ),
    ],
)
def test_what_cannot_be_is_refused(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        cluster(**spec)


@pytest.mark.parametrize("mode", ["Off", "Accepted", "Required"])
def test_passwords_need_no_tls(mode: str) -> None:
    asked = cluster(authentication=PASSWORDS, tls={"mode": mode}).spec.authentication
    assert asked is not None and asked.users_secret == "stock-users"


def test_a_live_cluster_may_take_up_a_login_and_another_one() -> None:
    specs = [
        cluster(metadata=OUTSIDE | more).spec
        for more in ({}, {"credentialsSecret": "one"}, {"credentialsSecret": "two"})
    ]
    for old, new in itertools.pairwise(specs):
        check_transition(old, new)


def test_an_ensemble_under_tls_can_be_named() -> None:
    spec = cluster(metadata={"connect": "zks://a:1,b:2/ledgers"}, tls={"mode": "Required"}).spec
    assert spec.metadata.connect == "zks://a:1,b:2/ledgers"
