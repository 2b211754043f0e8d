"""Serves `/metrics` for Prometheus and `/healthz` for the operator's probes.

If a pass does not end for a long time, the operator reports itself as unhealthy: a restart costs
little, since the operator keeps no state in memory.
"""

import time
from collections import Counter as _Counts
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from aiohttp import web
from bookie.hosts import is_wildcard, listen_everywhere
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from bookie_operator.model.audit_status import AuditStatus, ScrubStatus
from bookie_operator.model.status import ClusterStatus

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
STUCK_AFTER_S: Final = 300.0
AUTHORITY: Final = "ca"
"""Label value for the end of the authority that signs."""
_CLUSTER: Final = ("namespace", "cluster")
_OF_CONDITION: Final = {"True": 1, "False": 0, "Unknown": -1}
"""Value of a condition: an alert on 0 must not take what nobody knows for a no."""


class OperatorMetrics:
    """All metrics of one operator process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._leads = Gauge(
            "bookie_operator_leads",
            "1 while this process may act: it holds the lease or needs none",
            registry=self.registry,
        )
        self._leads.set(1)
        self._limbo = self._gauge("limbo_ledgers", "Ledgers in limbo")
        self._unchecked = self._gauge("unchecked_ledgers", "Ledgers with unchecked entries")
        self._condition = self._gauge(
            "condition", "1 while the condition is True, 0 if False, -1 if Unknown", "type"
        )
        self._created = self._gauge("cluster_created_timestamp_seconds", "Creation of the cluster")
        self._last_pass = self._gauge(
            "last_pass_timestamp_seconds", "End of the last successful pass"
        )
        self._blocked = self._gauge(
            "refusals", "Actions that are wanted but refused now", "predicate"
        )
        self._audited = self._gauge("audit_timestamp_seconds", "End of the last completed audit")
        self._findings = self._gauge(
            "audit_findings",
            "Ledgers or bookies in a class of findings, by the last completed audit",
            "class",
        )
        self._entries = self._gauge(
            "audit_entries", "Entries in a class of findings, by the last completed audit", "class"
        )
        self._corrupt = self._gauge(
            "scrub_corrupt_copies",
            "Copies that the last completed scrub found corrupt and could not replace",
        )
        self._expiry = self._gauge(
            "certificate_expiry_timestamp_seconds",
            "When a certificate or the authority that signs expires",
            "certificate",
        )
        self._passes = self._counter("passes", "Passes over a cluster", "result")
        self._actions = self._counter("actions", "Actions carried out", "type")
        self._seen: dict[tuple[str, str], float] = {}
        """When the last pass of each cluster ended, or it was found, by `clock`."""

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"bookie_operator_{name}", text, (*_CLUSTER, *labels), registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(
            f"bookie_operator_{name}", text, (*_CLUSTER, *labels), registry=self.registry
        )

    def found(self, namespace: str, cluster: str, created_at: datetime) -> None:
        """Record that the operator runs this cluster, and when the cluster was created."""
        self._created.labels(namespace, cluster).set(created_at.timestamp())
        self._seen.setdefault((namespace, cluster), self._clock())

    def passed(self, namespace: str, cluster: str, *, is_failed: bool) -> None:
        """Record that a pass ended. A failed one only shows that the loop still runs."""
        self._seen[(namespace, cluster)] = self._clock()
        self._passes.labels(namespace, cluster, "failed" if is_failed else "done").inc()
        if not is_failed:
            self._last_pass.labels(namespace, cluster).set_to_current_time()

    def lead(self, is_held: bool) -> None:
        """Record whether this process holds the lease."""
        self._leads.set(is_held)

    def acted(self, namespace: str, cluster: str, action: str) -> None:
        self._actions.labels(namespace, cluster, action).inc()

    def show(self, namespace: str, cluster: str, status: ClusterStatus) -> None:
        """Set the metrics from the status of a cluster."""
        self._limbo.labels(namespace, cluster).set(status.limbo.ledgers)
        self._unchecked.labels(namespace, cluster).set(status.limbo.unchecked)
        _drop(self._condition, namespace, cluster)
        for condition in status.conditions:
            value = _OF_CONDITION[condition.status]
            self._condition.labels(namespace, cluster, condition.type).set(value)
        _drop(self._blocked, namespace, cluster)
        for predicate, count in _Counts(refused.predicate for refused in status.blocked).items():
            self._blocked.labels(namespace, cluster, predicate).set(count)
        self._show_audit(namespace, cluster, status.audit)
        self._show_scrub(namespace, cluster, status.scrub)
        _drop(self._expiry, namespace, cluster)
        if status.tls is not None:
            for one in status.tls.certificates:
                self._expiry.labels(namespace, cluster, one.name).set(one.ends.timestamp())
            for authority in status.tls.authorities:
                if authority.signs:
                    ends = authority.ends.timestamp()
                    self._expiry.labels(namespace, cluster, AUTHORITY).set(ends)

    def _show_audit(self, namespace: str, cluster: str, audit: AuditStatus) -> None:
        """Replace the metrics of the former audit by those of the last one; they are never
        added."""
        for gauge in (self._audited, self._findings, self._entries):
            _drop(gauge, namespace, cluster)
        if audit.finished_at is not None:
            self._audited.labels(namespace, cluster).set(audit.finished_at.timestamp())
        for name, counts in audit.classes.items():
            self._findings.labels(namespace, cluster, name).set(counts.findings)
            self._entries.labels(namespace, cluster, name).set(counts.entries)

    def _show_scrub(self, namespace: str, cluster: str, scrub: ScrubStatus) -> None:
        """Audits of the operator read no copy: only a scrub knows of corrupt ones."""
        _drop(self._corrupt, namespace, cluster)
        if scrub.finished_at is not None:
            self._corrupt.labels(namespace, cluster).set(scrub.corrupt_left)

    def forget(self, namespace: str, cluster: str) -> None:
        """The cluster is gone: no figures of it stay behind."""
        self._seen.pop((namespace, cluster), None)
        for gauge in (
            *(self._limbo, self._unchecked, self._condition, self._created, self._last_pass),
            *(self._blocked, self._audited, self._findings, self._entries, self._corrupt),
            self._expiry,
        ):
            _drop(gauge, namespace, cluster)

    def stuck(self) -> Iterable[str]:
        """Clusters whose loop has not come back for long."""
        now = self._clock()
        return [f"{ns}/{name}" for (ns, name), at in self._seen.items() if now - at > STUCK_AFTER_S]


def _drop(gauge: Gauge, namespace: str, cluster: str) -> None:
    gauge.remove_by_labels({"namespace": namespace, "cluster": cluster})


async def serve_http(metrics: OperatorMetrics, *, host: str, port: int) -> web.AppRunner:
    """Start the HTTP port; the caller cleans the runner up."""

    async def show_metrics(_: web.Request) -> web.Response:
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def show_health(_: web.Request) -> web.Response:
        stuck = metrics.stuck()
        if stuck:
            why = f"no pass for more than {STUCK_AFTER_S:g} s: {', '.join(stuck)}\n"
            return web.Response(status=503, text=why)
        return web.Response(text="ok\n")

    application = web.Application()
    application.add_routes([web.get("/metrics", show_metrics), web.get("/healthz", show_health)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    if is_wildcard(host):
        await web.SockSite(runner, listen_everywhere(port)).start()
    else:
        await web.TCPSite(runner, host, port).start()
    return runner
