"""What a bookie with TLS is told, on both platforms; one without is told nothing of it."""

from typing import Any

import pytest
from bookie.server.settings import parse_settings
from bookie_operator.model.tls import TlsMode
from bookie_operator.plan.actions import template_of
from bookie_operator.platform.kubelet import Record, record_of, record_tree
from operator_scenes import cluster
from platform_settings import B0, settings

PLAIN = template_of(cluster(tls={"mode": "Off"}).spec, B0)


def test_a_plain_bookie_is_told_nothing_of_it() -> None:
    assert all("tls" not in one for one in settings(tls={"mode": "Off"}))


@pytest.mark.parametrize("mode", ["Accepted", "Required"])
def test_a_bookie_is_told_its_mode_and_where_its_credentials_are(mode: str) -> None:
    pod, process = settings(tls={"mode": mode})
    assert pod["tls"] == {"directory": "/etc/bookie/tls", "mode": mode}
    assert process["tls"] == {"directory": "/fleet/tls/bookie-bookie-0", "mode": mode}


@pytest.mark.parametrize("mode", ["Accepted", "Required"])
def test_a_bookie_reads_what_it_is_told(mode: str) -> None:
    for tree in settings(tls={"mode": mode, "http": True}):
        read = parse_settings(tree, source="the operator").tls
        assert read is not None and (read.mode, read.http) == (mode, True)
        assert str(read.directory) == tree["tls"]["directory"]
        assert read.clients == "required", "unless somebody says otherwise"


def test_http_speaks_it_on_request() -> None:
    assert all(
        one["tls"]["http"] is True for one in settings(tls={"mode": "Required", "http": True})
    )


@pytest.mark.parametrize(
    ("tls", "restarts"),
    [
        ({"mode": "Accepted"}, True),
        ({"mode": "Required"}, True),
        ({"mode": "Off", "http": True}, False),
        ({"mode": "Off", "issuer": {"name": "corporate"}}, False),
        ({"mode": "Off", "lifetimeDays": 20, "renewBeforeDays": 5}, False),
    ],
)
def test_what_a_bookie_takes_restarts_it_and_nothing_else_does(
    tls: dict[str, Any], restarts: bool
) -> None:
    assert (template_of(cluster(tls=tls).spec, B0).revision != PLAIN.revision) is restarts


def test_another_lifetime_restarts_nobody() -> None:
    both = [{"mode": "Required"}, {"mode": "Required", "lifetimeDays": 20, "renewBeforeDays": 5}]
    revisions = {template_of(cluster(tls=tls).spec, B0).revision for tls in both}
    assert len(revisions) == 1


def test_a_record_of_a_bookie_says_what_its_process_takes() -> None:
    template = template_of(cluster(tls={"mode": "Required", "http": True}).spec, B0)
    record = Record(template, tls=TlsMode.ACCEPTED)
    assert record_of(record_tree(record)) == record
    assert "tls" not in record_tree(Record(PLAIN)) and record_of(record_tree(Record(PLAIN))).tls
