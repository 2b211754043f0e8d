"""The tls section of a spec: its bounds, and what of it may change."""

from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode, TlsStatus
from bookie_operator.model.transition import check_transition
from operator_scenes import cluster
from pydantic import ValidationError

ISSUER = {"name": "corporate", "kind": "ClusterIssuer"}


def test_a_cluster_is_under_tls_unless_its_spec_says_otherwise() -> None:
    assert cluster().spec.tls.mode is TlsMode.REQUIRED


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ({"lifetimeDays": 30, "renewBeforeDays": 30}, "expected less than lifetimeDays"),
        ({"lifetimeDays": 1}, "lifetimeDays"),
        ({"lifetimeDays": 300, "authorityDays": 500}, "has to outlive what it signs"),
        ({"mode": "Sometimes"}, "mode"),
        ({"issuer": {"kind": "Issuer"}}, "name"),
    ],
)
def test_what_cannot_be_is_refused(tls: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        cluster(tls=tls)


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({"mode": "Off"}, {"mode": "Required", "issuer": ISSUER}, True),
        ({"mode": "Required"}, {"mode": "Off", "issuer": ISSUER}, True),
        ({"mode": "Required"}, {"mode": "Required", "issuer": ISSUER}, False),
        ({"mode": "Accepted", "issuer": ISSUER}, {"mode": "Accepted"}, False),
        ({"mode": "Accepted"}, {"mode": "Required"}, True),
    ],
)
def test_who_signs_changes_only_while_nobody_has_tls(
    old: dict[str, Any], new: dict[str, Any], allowed: bool
) -> None:
    before, after = cluster(tls=old).spec, cluster(tls=new).spec
    if allowed:
        return check_transition(before, after)
    with pytest.raises(ManifestError, match=r"spec\.tls\.issuer: found"):
        check_transition(before, after)
    return None


def test_a_status_without_tls_has_no_section() -> None:
    assert "tls" not in ClusterStatus().as_dict()
    section = ClusterStatus(tls=TlsStatus(rollover="Signing")).as_dict()["tls"]
    assert section["rollover"] == "Signing" and "since" not in section
