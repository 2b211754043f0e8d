"""What is issued and when, and who waits for it: the cases that a fleet's story does not tell."""

from dataclasses import replace
from typing import get_args

import pytest
from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import (
    CertificateAction,
    IssueCertificate,
    RestartBookie,
    StartBookie,
)
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.tls_view import Authorities, Certificate, Issuer, TlsView
from operator_scenes import DAY, SIGNER, T0, bookie, cluster, good, holder, observed

B0 = BookieId("bookie-0")
SECURE = cluster()
PLAIN = cluster(tls={"mode": "Off"})
NOTHING = ClusterStatus()


HOLDERS = [*(holder(Role.BOOKIE, one) for one in SECURE.spec.bookie_ids)]
HOLDERS += [holder(Role.OPERATOR), holder(Role.JOB), holder(Role.CLIENT)]


def seen(**changed: Certificate | None) -> TlsView:
    """Everybody has a good one, but for those named: `bookie_0`, `job`."""
    found = {one: good(one) for one in HOLDERS}
    for name, certificate in changed.items():
        [one] = [one for one in HOLDERS if one.name == name.replace("_", "-")]
        found.pop(one)
        if certificate is not None:
            found[one] = certificate
    return TlsView(
        hosts={one: (f"{one.name}.svc",) for one in HOLDERS},
        certificates=found,
        authorities=Authorities(SIGNER, None, {"aa": SIGNER}),
    )


def planned(view: TlsView | None, of: BookieCluster = SECURE, look: Observed | None = None) -> Plan:
    return plan(of, replace(look or observed(of=of), tls=view), NOTHING)


def issued(made: Plan) -> dict[str, str]:
    actions = [one for one in made.actions if isinstance(one, IssueCertificate)]
    return {one.principal.name: one.reason.partition(":")[0] for one in actions}


def reason_of(made: Plan) -> str:
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None
    return degraded.reason


def certificates(made: Plan) -> tuple[str, str]:
    found = made.status.condition(ConditionType.CERTIFICATES_VALID)
    assert found is not None
    return found.status, found.reason


def test_when_all_is_well_nothing_is_signed() -> None:
    made = planned(seen())
    assert not issued(made) and certificates(made) == ("True", "AllValid")


def test_one_is_renewed_when_it_is_time_and_nobody_else() -> None:
    made = planned(seen(job=good(holder(Role.JOB), 29 * DAY)))
    assert issued(made) == {"job": "it is time"} and certificates(made)[0] == "True"


def test_what_should_have_been_renewed_long_since_is_reported() -> None:
    made = planned(seen(job=good(holder(Role.JOB), 14 * DAY)))
    assert issued(made) == {"job": "CertificateExpiring"}
    assert certificates(made) == ("False", "CertificateExpiring")


def test_what_an_authority_cannot_sign_for_longer_is_not_signed_again_and_again() -> None:
    ending = replace(SIGNER, not_after=T0 + 20 * DAY)
    view = replace(
        seen(job=good(holder(Role.JOB), 20 * DAY)),
        authorities=Authorities(ending, None, {"aa": ending}),
    )
    assert not issued(planned(view))


def test_a_paused_cluster_signs_nothing_and_says_what_lacks() -> None:
    paused = cluster(paused=True)
    made = planned(seen(job=None), paused)
    assert issued(planned(seen(job=None))) == {"job": "CertificateMissing"} and not issued(made)
    assert not [one for one in made.actions if isinstance(one, get_args(CertificateAction))]
    look = replace(observed(of=paused, seconds=5), tls=seen(job=None))
    again = plan(paused, look, planned(seen()).status)
    assert reason_of(again) == "CertificatesInvalid", "the operator does not mend it now"


def test_a_roll_over_is_remembered_with_since_when_its_step_is_seen_everywhere() -> None:
    both = {"aa": SIGNER, "bb": replace(SIGNER, fingerprint="bb")}
    trusting = {one: replace(good(one), trusted=frozenset(both)) for one in HOLDERS}
    view = replace(
        seen(), certificates=trusting, spreads_within=DAY,
        authorities=Authorities(SIGNER, both["bb"], both),
    )  # fmt: skip
    first = planned(view).status.tls
    assert first is not None and (first.rollover, first.since) == ("Trusting", T0)
    look = replace(observed(of=SECURE, seconds=9), tls=view)
    again = plan(SECURE, look, planned(view).status).status.tls
    assert again == first, "it is not since now"
    done = planned(seen()).status.tls
    assert done is not None and (done.rollover, done.since) == ("", None)


def test_a_client_needs_no_name_that_it_is_dialled_by() -> None:
    plain = replace(good(holder(Role.JOB)), hosts=frozenset())
    assert not issued(planned(seen(job=plain)))


@pytest.mark.parametrize(("zookeeper", "asked"), [(True, {"192.0.2.7"}), (False, set())])
def test_a_zookeeper_reached_at_nodes_is_valid_for_their_addresses(
    zookeeper: bool, asked: set[str]
) -> None:
    outside = {"type": "NodePort", "zookeeper": zookeeper}
    of, keeper = cluster(tls={"mode": "Required"}, external=outside), holder(Role.ZOOKEEPER)
    facts = {"advertised": "stock=192.0.2.7:31181 run=192.0.2.7:31182"}
    look = observed(bookie("bookie-0", of=of, process_facts=facts), of=of)
    view = replace(seen(), hosts={**seen().hosts, keeper: ("zookeeper.svc",)})
    [made] = [one for one in planned(view, of, look).actions if is_for(one, keeper)]
    assert set(made.hosts) - {"zookeeper.svc"} == asked


def is_for(action: object, principal: Principal) -> bool:
    return isinstance(action, IssueCertificate) and action.principal == principal


def test_a_bookie_is_not_started_before_it_has_a_certificate() -> None:
    absent = replace(bookie(B0, of=SECURE), process=None, health=None)
    look = observed(absent, of=SECURE)
    made = planned(seen(bookie_0=None), look=look)
    [refused] = [one for one in made.refusals if one.predicate == "CertificatePending"]
    assert refused.bookie == B0 and not any(isinstance(a, StartBookie) for a in made.actions)
    assert any(isinstance(one, StartBookie) for one in planned(seen(), look=look).actions)


@pytest.mark.parametrize("lacking", ["bookie_0", "operator", "job"])
def test_nobody_takes_tls_before_those_who_must_reach_it_can(lacking: str) -> None:
    plain = observed(*(bookie(one, of=PLAIN) for one in SECURE.spec.bookie_ids), of=SECURE)
    made = planned(seen(**{lacking: None}), look=plain)
    restarted = [a.template.bookie_id for a in made.actions if isinstance(a, RestartBookie)]
    assert B0 not in restarted
    found = made.status.condition(ConditionType.TLS_IN_FORCE)
    assert found is not None and found.reason == "IssuingCertificates"


def test_a_certificate_that_ends_soon_holds_nobody_up() -> None:
    plain = observed(*(bookie(one, of=PLAIN) for one in SECURE.spec.bookie_ids), of=SECURE)
    made = planned(seen(bookie_0=good(holder(Role.BOOKIE, B0), DAY)), look=plain)
    assert [a.template.bookie_id for a in made.actions if isinstance(a, RestartBookie)] == [B0]


@pytest.mark.parametrize(
    ("issuer", "reason"),
    [
        (Issuer("Issuer x", "no such thing", is_there=False), "IssuerMissing"),
        (Issuer("Issuer x", "its secret is gone"), "IssuerNotReady"),
        (Issuer("Issuer x", refused={"job": "no URIs"}), "NotIssued"),
    ],
)
def test_what_an_issuer_does_not_do_is_named_before_what_comes_of_it(
    issuer: Issuer, reason: str
) -> None:
    made = planned(replace(seen(job=None), authorities=Authorities(), issuer=issuer))
    assert certificates(made) == ("False", reason) and not issued(made)
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == "CertificatesInvalid"


def test_the_first_to_end_stands_first_in_the_status() -> None:
    made = planned(seen(client=good(holder(Role.CLIENT), 40 * DAY)))
    assert made.status.tls is not None
    assert made.status.tls.certificates[0].name == "client"


def test_a_status_with_tls_is_still_while_nothing_happens() -> None:
    first = planned(seen())
    look = replace(observed(of=SECURE, seconds=3600), tls=seen())
    again = plan(SECURE, look, first.status)
    assert again.status.tls == first.status.tls
    assert [c.message for c in again.status.conditions if c.type == "CertificatesValid"] == [
        c.message for c in first.status.conditions if c.type == "CertificatesValid"
    ]


def test_jobs_and_operator_talk_plain_to_whom_they_must_while_the_fleet_moves() -> None:
    plain = observed(*(bookie(one, of=PLAIN) for one in SECURE.spec.bookie_ids), of=SECURE)
    made = planned(seen(), look=plain)
    assert made.status.tls is not None
    assert (made.status.tls.mode, made.status.tls.clients) == ("Accepted", "Accepted")
    assert made.status.bookies[0].tls == ""
    assert TlsMode(made.status.tls.mode) is TlsMode.ACCEPTED
