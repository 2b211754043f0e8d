"""The HTTP port: `/metrics` for Prometheus, `/healthz` (the process lives), `/readyz` (it can
serve).

The probes answer from the start of the process and never depend on limbo: a booting bookie is
alive, and a bookie in limbo is ready (docs/design.md, section 4).
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from bookie.hosts import is_wildcard, listen_everywhere
from bookie.server.http_connections import HttpConnections
from bookie.server.settings import Limits
from bookie.server.state import AuthFailure, BookieState, CutOff, Phase
from bookie.storage.durations import Durations

DATA_PORTS = ("run", "stock")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Gauges:
    """Figures of the storage at this moment; None until a boot has ended: then they are not known,
    and are not exported. `free_bytes`: by path of the directory.
    """

    boot_epoch: int | None = None
    boot_clean: bool | None = None
    limbo_ledgers: int | None = None
    unchecked_ledgers: int | None = None
    noted_ledgers: int | None = None
    unflushed_bytes: int | None = None
    free_bytes: Mapping[str, int] | None = None
    syncs: Mapping[tuple[str, str], Durations] = field(default_factory=dict)
    """Durations of syncs, by stream and directory."""
    checkpoints: Durations = field(default_factory=Durations)
    certificate_ends_s: float | None = None
    """Seconds since 1970; None without TLS."""


MeasureGauges = Callable[[], Awaitable[Gauges]]
"""Measures the figures; it asks the disks in a thread."""
MakeContext = Callable[[], ssl.SSLContext]


class BookieCollector(Collector):
    """Makes the metrics from the state whenever Prometheus scrapes them, so no figure is stored
    twice.
    """

    def __init__(self, state: BookieState, gauges: Gauges) -> None:
        self._state = state
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        yield from self._levels(self._gauges)
        yield from self._durations(self._gauges)

    def _counters(self) -> Iterable[Metric]:
        traffic = self._state.traffic
        for name, text, value in (
            ("runs_added", "Runs accepted", traffic.runs_added),
            ("entries_added", "Entries accepted", traffic.entries_added),
            ("added_bytes", "Bytes of accepted run frames", traffic.bytes_added),
            ("reads", "Read requests", traffic.reads),
            ("read_bytes", "Bytes of run frames read for clients", traffic.bytes_read),
            ("fences", "Ledgers fenced by a request", traffic.fences),
            ("limbo_cleared", "Limbo and unchecked marks cleared", traffic.limbo_cleared),
            ("slow_clients", "Connections cut off for untaken replies", traffic.slow_clients),
            ("stock_garbage", "Stock connections closed for bad frames", traffic.garbage),
        ):
            yield CounterMetricFamily(f"bookie_{name}", text, value=value)
        refused = CounterMetricFamily("bookie_refused", "Requests refused", labels=["status"])
        for status, count in sorted(traffic.refused.items()):
            refused.add_metric([status.name.lower()], count)
        yield refused
        failures = CounterMetricFamily(
            "bookie_tls_failures", "Connections that ended before TLS was up", labels=["port"]
        )
        for port in DATA_PORTS:
            failures.add_metric([port], traffic.tls_failures[port])
        yield failures
        cut_off = CounterMetricFamily(
            "bookie_connections_cut_off",
            "Connections refused or ended to keep resources for others",
            labels=["reason"],
        )
        for cause in CutOff:
            cut_off.add_metric([cause.value], traffic.cut_off[cause])
        yield cut_off
        strangers = CounterMetricFamily(
            "bookie_stock_authentication_failures",
            "Stock connections closed because they did not authenticate",
            labels=["reason"],
        )
        for reason in AuthFailure:
            strangers.add_metric([reason.value], traffic.authentication_failures[reason])
        yield strangers

    def _levels(self, gauges: Gauges) -> Iterable[Metric]:
        for name, text, value in (
            ("limbo_ledgers", "Ledgers in limbo", gauges.limbo_ledgers),
            ("unchecked_ledgers", "Ledgers not checked since the boot", gauges.unchecked_ledgers),
            ("noted_ledgers", "Ledgers that a crash now puts in doubt", gauges.noted_ledgers),
            ("boot_epoch", "Boot epoch", gauges.boot_epoch),
            ("boot_clean", "1 when the stop before this boot was clean", gauges.boot_clean),
            ("unflushed_bytes", "Bytes added since the last checkpoint", gauges.unflushed_bytes),
            ("connections", "Open data connections", self._state.traffic.connections),
            ("reply_bytes", "Bytes of replies not taken yet", self._state.traffic.reply_bytes),
            ("long_polls", "Long polls waiting for a LAC", self._state.traffic.long_polls),
            (
                "stock_unauthenticated",
                "Stock connections not authenticated yet",
                self._state.traffic.unauthenticated,
            ),
            ("ready", "1 when the data port is open", self._state.phase.serves),
            ("writable", "1 when adds are accepted", self._state.is_writable),
            ("leased", "1 while no other process can answer as this bookie", self._state.is_leased),
            (
                "collection_held",
                "1 while garbage collection waits for approval",
                bool(self._state.collection_held),
            ),
            (
                "metadata_rolled_back",
                "1 while the metadata store looks rolled back",
                bool(self._state.metadata_rolled_back),
            ),
            ("ledgers_missing", "Ledgers held, not in the metadata", self._state.ledgers_missing),
            ("tombstones", "Collected ledgers that stay fenced", self._state.tombstones),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"bookie_{name}", text, value=float(value))
        wires = GaugeMetricFamily(
            "bookie_stock_connections", "Open connections of stock clients", labels=["wire"]
        )
        for wire, count in sorted(self._state.traffic.stock_connections.items()):
            wires.add_metric([wire], count)
        yield wires
        secure = GaugeMetricFamily(
            "bookie_tls_connections", "Open connections with TLS", labels=["port"]
        )
        for port in DATA_PORTS:
            secure.add_metric([port], self._state.traffic.tls_connections[port])
        yield secure
        if gauges.certificate_ends_s is not None:
            text = "When the certificate in use expires, in seconds since 1970"
            yield GaugeMetricFamily(
                "bookie_certificate_expiry_timestamp_seconds", text, value=gauges.certificate_ends_s
            )
        phase = GaugeMetricFamily("bookie_phase", "1 for the current phase", labels=["phase"])
        for candidate in Phase:
            phase.add_metric([candidate.name.lower()], float(candidate is self._state.phase))
        yield phase
        free = GaugeMetricFamily("bookie_free_bytes", "Free disk space", labels=["directory"])
        for directory, free_bytes in (gauges.free_bytes or {}).items():
            free.add_metric([directory], free_bytes)
        yield free

    def _durations(self, gauges: Gauges) -> Iterable[Metric]:
        traffic = self._state.traffic
        for name, text, durations in (
            ("add_wait", "Time that an add waits for a disk", traffic.add_waits),
            ("read_wait", "Time until the entries of a read are found", traffic.read_waits),
            ("checkpoint", "Duration of successful checkpoints", gauges.checkpoints),
        ):
            metric = HistogramMetricFamily(f"bookie_{name}_seconds", text)
            metric.add_metric([], list(durations.buckets()), durations.sum_s)
            yield metric
        syncs = HistogramMetricFamily(
            "bookie_sync_seconds", "Duration of syncs of a disk", labels=["stream", "directory"]
        )
        for labels, durations in gauges.syncs.items():
            syncs.add_metric(labels, list(durations.buckets()), durations.sum_s)
        yield syncs


class ProbeServer:
    """The HTTP port of one bookie."""

    def __init__(
        self,
        state: BookieState,
        gauges: MeasureGauges,
        tls: MakeContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`tls`: makes the port's TLS context; None = plain."""
        self._limits = limits or Limits()
        self._server: asyncio.Server | None = None
        """None before `start`."""
        self._state = state
        self._gauges = gauges
        self._tls = tls
        self._runner: web.AppRunner | None = None
        """None before `start` and after `stop`."""

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which differs from `port` only when that is 0."""
        connections = HttpConnections(self._limits, self._state)
        app = web.Application(middlewares=[connections.answered])
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        assert self._runner.server is not None
        make = connections.factory(self._runner.server)
        tls, loop = None if self._tls is None else self._tls(), asyncio.get_running_loop()
        handshake_s = None if tls is None else self._limits.http_seconds
        if is_wildcard(host):
            self._server = await loop.create_server(
                make, sock=listen_everywhere(port), ssl=tls, ssl_handshake_timeout=handshake_s
            )
        else:
            self._server = await loop.create_server(
                make, host, port, ssl=tls, ssl_handshake_timeout=handshake_s
            )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(BookieCollector(self._state, await self._gauges()))
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text=f"alive: {self._state.phase.name}\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        phase = self._state.phase
        text = f"{phase.name}: {self._state.explanation}".rstrip(": ") + "\n"
        return web.Response(status=200 if phase.serves else 503, text=text)
