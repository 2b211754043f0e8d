"""What Prometheus and probes are told, over a real port."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from bookie_operator.metrics import STUCK_AFTER_S, OperatorMetrics, serve_http
from bookie_operator.model.audit_status import AuditStatus, ClassCounts, ScrubStatus
from bookie_operator.model.bookie_status import LimboTotals
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.status import Blocked, ClusterStatus
from bookie_operator.model.tls import AuthorityStatus, CertificateStatus, TlsStatus
from clock import Clock
from operator_scenes import at
from prometheus_client import generate_latest

Get = Callable[[str], Awaitable[tuple[int, str]]]


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def metrics(clock: Clock) -> OperatorMetrics:
    return OperatorMetrics(clock)


@pytest.fixture
async def get(metrics: OperatorMetrics) -> AsyncIterator[Get]:
    runner = await serve_http(metrics, host="127.0.0.1", port=0)
    port = runner.addresses[0][1]

    async def ask(path: str) -> tuple[int, str]:
        async with session.get(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, await response.text()

    async with aiohttp.ClientSession() as session:
        yield ask
    await runner.cleanup()


def status(*predicates: str, limbo: int = 0) -> ClusterStatus:
    blocked = tuple(Blocked(action="Restart", predicate=one, since=at(0)) for one in predicates)
    available = Condition(type="Available", status="True", reason="Up", last_transition_time=at(0))
    totals = LimboTotals(ledgers=limbo, unchecked=2 * limbo)
    return ClusterStatus(limbo=totals, blocked=blocked, conditions=(available,))


async def test_a_status_is_shown_as_figures(metrics: OperatorMetrics, get: Get) -> None:
    metrics.show("ns", "demo", status("LimboPresent", "LimboPresent", "Paused", limbo=3))
    metrics.acted("ns", "demo", "StartJob")
    _code, text = await get("/metrics")
    where = 'cluster="demo",namespace="ns"'
    assert f"bookie_operator_limbo_ledgers{{{where}}} 3.0" in text
    assert f"bookie_operator_unchecked_ledgers{{{where}}} 6.0" in text
    assert f'bookie_operator_condition{{{where},type="Available"}} 1.0' in text
    assert f'bookie_operator_refusals{{{where},predicate="LimboPresent"}} 2.0' in text
    assert f'bookie_operator_actions_total{{{where},type="StartJob"}} 1.0' in text


async def test_a_refusal_that_is_over_is_shown_no_more(metrics: OperatorMetrics, get: Get) -> None:
    metrics.show("ns", "demo", status("Paused"))
    metrics.show("ns", "demo", status())
    assert "Paused" not in (await get("/metrics"))[1]


async def test_a_condition_that_nobody_knows_is_not_shown_as_false(
    metrics: OperatorMetrics, get: Get
) -> None:
    unknown = Condition(
        type="SpaceLow", status="Unknown", reason="Silent", last_transition_time=at(0)
    )
    metrics.show("ns", "demo", ClusterStatus(conditions=(unknown,)))
    assert 'type="SpaceLow"} -1.0' in (await get("/metrics"))[1]


async def test_a_condition_that_the_status_has_no_more_is_shown_no_more(
    metrics: OperatorMetrics, get: Get
) -> None:
    metrics.show("ns", "demo", status())
    metrics.show("ns", "demo", ClusterStatus())
    assert "bookie_operator_condition{" not in (await get("/metrics"))[1]


async def test_a_cluster_has_its_age_before_any_pass(metrics: OperatorMetrics, get: Get) -> None:
    metrics.found("ns", "demo", at(0))
    text = (await get("/metrics"))[1]
    (made,) = re.findall(r'created_timestamp_seconds\{cluster="demo",namespace="ns"\} (\S+)', text)
    assert float(made) == at(0).timestamp()


def audited(**findings: int) -> ClusterStatus:
    classes = {n: ClassCounts(findings=count, entries=count * 10) for n, count in findings.items()}
    return ClusterStatus(audit=AuditStatus(finished_at=at(0), classes=classes))


async def test_an_audit_takes_the_place_of_the_one_before(
    metrics: OperatorMetrics, get: Get
) -> None:
    for _pass in range(3):
        metrics.show("ns", "demo", audited(missing=5, corrupt=1, silent_bookie=2))
    metrics.show("ns", "demo", audited(missing=3, corrupt=0))
    metrics.show("ns", "other", audited(missing=7))
    text = (await get("/metrics"))[1]
    figures = re.findall(r'audit_(\w+)\{class="(\w+)",cluster="demo",.*\} (\S+)', text)
    assert sorted(figures) == [
        ("entries", "corrupt", "0.0"), ("entries", "missing", "30.0"),
        ("findings", "corrupt", "0.0"), ("findings", "missing", "3.0"),
    ]  # fmt: skip
    (ended,) = re.findall(r'audit_timestamp_seconds\{cluster="demo",.*\} (\S+)', text)
    assert float(ended) == at(0).timestamp()


async def test_corrupt_copies_that_the_last_scrub_left_are_shown(
    metrics: OperatorMetrics, get: Get
) -> None:
    left = 'bookie_operator_scrub_corrupt_copies{cluster="demo",namespace="ns"}'
    metrics.show("ns", "demo", ClusterStatus())
    assert left not in (await get("/metrics"))[1], "no scrub has ended"
    for found, shown in ((3, 2.0), (1, 0.0)):
        scrub = ScrubStatus(finished_at=at(9), corrupt_found=found, corrupt_replaced=1)
        metrics.show("ns", "demo", ClusterStatus(scrub=scrub))
        assert f"{left} {shown}" in (await get("/metrics"))[1]
    metrics.forget("ns", "demo")
    assert left not in (await get("/metrics"))[1]


async def test_of_two_authorities_the_end_of_the_one_that_signs_is_shown(
    metrics: OperatorMetrics, get: Get
) -> None:
    signs = AuthorityStatus(fingerprint="aa", ends=at(7), signs=True)
    waits = AuthorityStatus(fingerprint="bb", ends=at(9))
    metrics.show("ns", "demo", ClusterStatus(tls=TlsStatus(authorities=(signs, waits))))
    text = (await get("/metrics"))[1]
    [ends] = re.findall(r'expiry_timestamp_seconds\{certificate="ca",.*\} (\S+)', text)
    assert float(ends) == at(7).timestamp()


async def test_a_cluster_that_is_gone_leaves_no_figures(metrics: OperatorMetrics, get: Get) -> None:
    for name in ("demo", "other"):
        metrics.found("ns", name, at(0))
        metrics.passed("ns", name, is_failed=False)
        audit = {"audit": audited(missing=1).audit}
        metrics.show("ns", name, status("Paused", limbo=1).model_copy(update=audit))
    metrics.forget("ns", "demo")
    metrics.forget("ns", "demo")
    gauges = [
        line
        for line in (await get("/metrics"))[1].splitlines()
        if 'cluster="demo"' in line and "_total" not in line and "_created" not in line
    ]
    assert not gauges
    assert 'limbo_ledgers{cluster="other",namespace="ns"} 1.0' in (await get("/metrics"))[1]


async def test_a_cluster_that_is_gone_leaves_no_dates(metrics: OperatorMetrics, get: Get) -> None:
    """When it was made, and when its certificates and their authority end."""
    authority = AuthorityStatus(fingerprint="aa", ends=at(0), signs=True)
    certificate = CertificateStatus(name="bookie-0", ends=at(0))
    tls = TlsStatus(authorities=(authority,), certificates=(certificate,))
    metrics.found("ns", "demo", at(0))
    metrics.show("ns", "demo", ClusterStatus(tls=tls))
    assert (await get("/metrics"))[1].count("_timestamp_seconds{") == 3
    metrics.forget("ns", "demo")
    assert (await get("/metrics"))[1].count("_timestamp_seconds{") == 0


async def test_an_operator_whose_loop_hangs_is_unhealthy(
    metrics: OperatorMetrics, get: Get, clock: Clock
) -> None:
    assert (await get("/healthz")) == (200, "ok\n")
    metrics.passed("ns", "demo", is_failed=True)
    metrics.passed("ns", "other", is_failed=False)
    clock.now += STUCK_AFTER_S + 1
    metrics.passed("ns", "other", is_failed=True)
    assert (await get("/healthz")) == (503, "no pass for more than 300 s: ns/demo\n")
    metrics.forget("ns", "demo")
    assert (await get("/healthz"))[0] == 200


async def test_a_first_pass_that_does_not_end_is_stuck(
    metrics: OperatorMetrics, get: Get, clock: Clock
) -> None:
    metrics.found("ns", "demo", at(0))
    assert (await get("/healthz"))[0] == 200
    clock.now += STUCK_AFTER_S + 1
    code, text = await get("/healthz")
    assert code == 503 and "ns/demo" in text


def test_the_figures_are_those_of_the_last_status_alone(clock: Clock) -> None:
    certificate = CertificateStatus(name="bookie-0", ends=at(5))
    signs = AuthorityStatus(fingerprint="aa", ends=at(7), signs=True)
    tls = TlsStatus(certificates=(certificate,), authorities=(signs,))
    scrub = ScrubStatus(finished_at=at(9), corrupt_found=2)
    more = {"tls": tls, "scrub": scrub, "audit": audited(missing=1).audit}
    whole = status("Paused", limbo=1).model_copy(update=more)
    figures = []
    for shown in ((ClusterStatus(),), (whole, ClusterStatus())):
        metrics = OperatorMetrics(clock)
        for one in shown:
            metrics.show("ns", "demo", one)
        figures.append(generate_latest(metrics.registry))
    assert figures[0] == figures[1]
