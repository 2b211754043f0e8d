"""What a bookie is told of users and of a login, on both platforms; without them, nothing."""

from bookie.server.settings import parse_settings
from bookie_operator.plan.actions import template_of
from bookie_operator.platform.kubelet import Record, record_of, record_tree
from operator_scenes import cluster
from platform_settings import B0, URL, settings

ASKS = {"authentication": {"mechanisms": ["tls", "digest-md5"], "usersSecret": "stock-users"}}
LOGIN = {"metadata": {"connect": URL, "credentialsSecret": "zk-login"}}


def test_who_asks_for_nothing_is_told_nothing() -> None:
    assert not any({"authentication", "zookeeper"} & one.keys() for one in settings())


def test_a_bookie_is_told_how_clients_come_in_and_where_users_are() -> None:
    pod, process = (one["authentication"] for one in settings(**ASKS))
    assert pod == {"mechanisms": ["tls", "digest-md5"], "usersFile": "/etc/bookie/users/users"}
    assert process == pod | {"usersFile": "/fleet/secrets/stock-users/users"}


def test_a_bookie_is_told_where_its_login_is() -> None:
    pod, process = (one["zookeeper"] for one in settings(**LOGIN))
    assert pod == {"credentialsFile": "/etc/bookie/zookeeper/credentials"}
    assert process == {"credentialsFile": "/fleet/secrets/zk-login/credentials"}


def test_a_bookie_reads_what_it_is_told() -> None:
    for tree in settings(**ASKS, **LOGIN):
        read = parse_settings(tree, source="the operator")
        assert read.authentication is not None
        assert str(read.authentication.users_file) == tree["authentication"]["usersFile"]
        assert str(read.zookeeper.credentials_file) == tree["zookeeper"]["credentialsFile"]


def test_certificates_alone_need_no_file() -> None:
    for one in settings(authentication={"mechanisms": ["tls"]}):
        assert one["authentication"] == {"mechanisms": ["tls"]}


def test_to_ask_or_to_log_in_is_another_revision_and_not_to_is_that_of_before() -> None:
    templates = [template_of(cluster(**spec).spec, B0) for spec in ({}, ASKS, LOGIN)]
    assert len({one.revision for one in templates}) == 3
    assert not {"authentication", "login_secret"} & templates[0].facts.keys()


def test_a_record_outlives_the_operator() -> None:
    record = Record(template_of(cluster(**ASKS, **LOGIN).spec, B0))
    assert record_of(record_tree(record)) == record
