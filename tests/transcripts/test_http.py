"""What Prometheus, probes and browsers get of a bookie, of the operator and beside a ZooKeeper."""

import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

import pytest
from aiohttp import web
from bookie.monitoring.exporter import Exporter
from bookie.monitoring.exporter import main as exporter
from bookie.protocol.status import Status
from bookie.server.http import Gauges, ProbeServer
from bookie.server.state import AuthFailure, BookieState, CutOff, Phase, ReadOnlyReason, Traffic
from bookie.storage.durations import BOUNDS_S, Durations
from bookie_operator.errors import LocalError
from bookie_operator.metrics import STUCK_AFTER_S, OperatorMetrics, serve_http
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.page.document import content
from bookie_operator.page.serving import application
from bookie_operator.page.shown import Shown, Unreadable
from click.testing import CliRunner
from clock import Clock
from kubectl_lab import cluster_of, tree_of
from raw_http import answer_to
from server_lab import ServerLab
from shell_record import ShellRecord
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


def without_length(text: str) -> str:
    """Without that of bodies of which something else was left out."""
    return re.sub(r"Content-Length: \d{4,}", "Content-Length: LENGTH", text)


def lasting(*seconds: float) -> Durations:
    made = Durations()
    for one in seconds:
        made.observe(one)
    return made


def numbered() -> tuple[BookieState, Gauges]:
    """A bookie no two of whose figures are the same number, whichever fields it has."""
    number = count(2)
    keys: dict[str, Sequence[Any]] = {
        "refused": tuple(Status)[1:],
        "stock_connections": ("v2", "v3"),
        "tls_connections": ("run", "stock"),
        "tls_failures": ("run", "stock"),
        "cut_off": tuple(CutOff),
        "authentication_failures": tuple(AuthFailure),
    }
    traffic = Traffic()
    for field in fields(Traffic):
        now = getattr(traffic, field.name)
        if isinstance(now, Counter):
            setattr(traffic, field.name, Counter({key: next(number) for key in keys[field.name]}))
        elif isinstance(now, int):
            setattr(traffic, field.name, next(number))
    bounds = (*BOUNDS_S, 60.0)
    traffic.add_waits = lasting(*bounds, *bounds[3:], *bounds[9:])
    traffic.read_waits = lasting(0.0001)
    gauges = Gauges(
        **{name: next(number) for name in LEVELS},
        boot_clean=True,
        free_bytes={"/journal": next(number), "/ledger-0": next(number)},
        syncs={("journal", "/journal"): lasting(0.003, 0.3), ("log", "/ledger-0"): lasting(3)},
        checkpoints=lasting(1, 2, 20),
    )
    state = BookieState("bookie-0", traffic=traffic)
    state.ledgers_missing, state.tombstones = next(number), next(number)
    return state, gauges


LEVELS: Final = (
    "boot_epoch", "limbo_ledgers", "unchecked_ledgers", "noted_ledgers", "unflushed_bytes",
    "certificate_ends_s",
)  # fmt: skip


async def asked(state: BookieState, gauges: Gauges, *paths: str, **more: Any) -> str:
    async def measured() -> Gauges:
        return gauges

    server = ProbeServer(state, measured)
    port = await server.start("127.0.0.1", 0)
    found = [await answer_to(port, path, **more) for path in paths]
    await server.stop()
    return "\n".join(found)


async def test_all_figures_of_a_bookie(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == await asked(*numbered(), "/metrics")


async def test_figures_before_the_boot_has_ended(snapshot: SnapshotAssertion) -> None:
    found = await asked(BookieState("bookie-0"), Gauges(), "/metrics")
    assert snapshot(extension_class=Words) == re.sub(r"^#.*\n|.*bucket.*\n", "", found, flags=re.M)


async def test_health_in_every_phase(snapshot: SnapshotAssertion) -> None:
    found = []
    for phase in Phase:
        state = BookieState("bookie-0", phase)
        found.append(await asked(state, Gauges(), "/healthz", "/readyz"))
        state.message = "a sentence"
        found.append(await asked(state, Gauges(), "/readyz"))
    state = BookieState("bookie-0", Phase.SERVING)
    for reason in ReadOnlyReason:
        state.is_leased = state.is_leased and reason is not ReadOnlyReason.LEASE
        state.switch_read_only(reason, True)
        found.append(await asked(state, Gauges(), "/readyz"))
    assert snapshot(extension_class=Words) == "\n".join(found)


async def test_what_else_is_asked_of_a_bookie(snapshot: SnapshotAssertion) -> None:
    state = BookieState("bookie-0", Phase.SERVING)
    found = await asked(state, Gauges(), "/", "/metric", "/metrics/", "/health", "/healthz?x=1")
    found += await asked(state, Gauges(), "/healthz", method="POST")
    found += await asked(state, Gauges(), "/healthz", method="HEAD")
    assert snapshot(extension_class=Words) == found


async def test_figures_of_a_bookie_that_works(
    server: ServerLab, snapshot: SnapshotAssertion
) -> None:
    for _ in range(2):
        await server.ledger()
    await server.ledger(closed_at=3)
    await server.restart()
    ledger = await server.ledger()
    for first in range(0, 12, 4):
        await server.add(ledger, first, 4)
    await server.held(ledger, 0, 3)
    await server.fence(ledger)
    await server.add(ledger, 12)
    assert server.bookie is not None
    found = await answer_to(server.bookie.ports["http"], "/metrics")
    found = re.sub(r"^#.*\n|.*_bucket.*\n", "", found, flags=re.M)
    found = re.sub(r"(_seconds_sum(?:{.*})?) .*", r"\1 SECONDS", found)
    found = re.sub(r'directory="[^"]*/', 'directory="/', found)
    # A file of the bookie's identity has more digits at some times than at others.
    found = re.sub(r"(free_bytes{.*} 1\.0566)\d+", r"\1…", found)
    # How many syncs there were is a matter of time: one may serve several writes.
    found = re.sub(r"(sync_seconds_count{.*}) .*", r"\1 SYNCS", found)
    assert snapshot(extension_class=Words) == without_length(found)


def operated() -> OperatorMetrics:
    """Two clusters, of which one has something of everything."""
    clock = Clock(1000.0)
    metrics = OperatorMetrics(clock)
    made = datetime(2026, 1, 1, tzinfo=UTC)
    metrics.found("books", "demo", made)
    metrics.found("shelf", "other", made.replace(hour=2))
    metrics.show("books", "demo", crowded().status)
    metrics.show("shelf", "other", cluster_of("blocked").status)
    for action, times in (("StartJob", 2), ("CreateVolume", 3)):
        for _ in range(times):
            metrics.acted("books", "demo", action)
    for is_failed in (False, False, True):
        metrics.passed("books", "demo", is_failed=is_failed)
    return metrics


def crowded() -> BookieCluster:
    tree = tree_of("limbo")
    status = tree["status"]
    classes = {"missing": {"findings": 4, "entries": 40}, "lost": {"findings": 5, "entries": 50}}
    status["audit"] = {"finishedAt": "2026-01-01T00:05:00Z", "classes": classes}
    status["scrub"] = {
        "finishedAt": "2026-01-01T00:06:00Z",
        "corruptFound": 9,
        "corruptReplaced": 3,
    }
    status["conditions"][0]["status"] = "Unknown"
    begins = {"begins": "2026-01-01T00:00:00Z", "fingerprint": "f"}
    ends = ("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z")
    status["tls"] = {
        "certificates": [
            begins | {"name": f"bookie-{n}", "ends": end} for n, end in enumerate(ends)
        ],
        "authorities": [begins | {"signs": bool(n), "ends": end} for n, end in enumerate(ends)],
    }
    why = {"action": "Restart", "since": "2026-01-01T00:00:00Z", "message": "why"}
    predicates = ("LimboPresent", "LimboPresent", "Paused")
    status["blocked"] = [why | {"predicate": one} for one in predicates]
    return BookieCluster.model_validate(tree)


async def of_operator(metrics: OperatorMetrics, *paths: str) -> str:
    runner = await serve_http(metrics, host="127.0.0.1", port=0)
    port = runner.addresses[0][1]
    found = "\n".join([await answer_to(port, path) for path in paths])
    await runner.cleanup()
    found = re.sub(r"(_created|last_pass_timestamp_seconds)({.*}) .*", r"\1\2 NOW", found)
    return without_length(found)


async def test_all_figures_of_the_operator(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == await of_operator(operated(), "/metrics")


async def test_figures_of_a_cluster_that_is_gone(snapshot: SnapshotAssertion) -> None:
    metrics = operated()
    metrics.lead(False)
    metrics.forget("books", "demo")
    metrics.forget("shelf", "other")
    assert snapshot(extension_class=Words) == await of_operator(metrics, "/metrics")


async def test_health_of_the_operator(snapshot: SnapshotAssertion) -> None:
    clock = Clock(0.0)
    metrics = OperatorMetrics(clock)
    found = [await of_operator(metrics, "/healthz", "/", "/health")]
    metrics.found("books", "demo", datetime(2026, 1, 1, tzinfo=UTC))
    metrics.found("shelf", "other", datetime(2026, 1, 1, tzinfo=UTC))
    clock.now = STUCK_AFTER_S
    found.append(await of_operator(metrics, "/healthz"))
    clock.now += 1
    found.append(await of_operator(metrics, "/healthz"))
    assert snapshot(extension_class=Words) == "\n".join(found)


KEY: Final = "the-key"
NOW: Final = datetime(2026, 1, 1, 0, 21, tzinfo=UTC)
HOST: Final = "Host: localhost:8088"
BLOCKS: Final = re.compile(r"(</?(p|h\d|li|ul|tr|table|section|div|details|summary)\b)")
"""Elements that begin a line of the transcript."""


class Source:
    """What the page shows."""

    def __init__(self, *clusters: Shown) -> None:
        self.clusters = clusters
        self.error: LocalError | None = None

    async def __call__(self) -> Sequence[Shown]:
        if self.error is not None:
            raise self.error
        return self.clusters


async def of_page(source: Source, key: str, *requests: tuple[str, ...]) -> str:
    runner = web.AppRunner(application(source, key=key))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    found = "\n".join([await answer_to(port, *one) for one in requests])
    await runner.cleanup()
    found = without_length(found)
    found = re.sub(r"(<style>).*?(</style>)", r"\1…\2", found, flags=re.S)
    return re.sub(r"sha256-[^']+", "sha256-DIGEST", found)


@pytest.mark.parametrize("key", [KEY, ""], ids=["key", "no-key"])
async def test_who_is_served_the_page(key: str, snapshot: SnapshotAssertion) -> None:
    requests = (
        ("/", HOST), ("/content", HOST), (f"/content?key={KEY}", HOST), ("/?key=wrong", HOST),
        (f"/?key={KEY}", HOST), ("/", HOST, f"Cookie: key-8088={KEY}"),
        ("/", HOST, f"Cookie: key-8089={KEY}"), (f"/nothing?key={KEY}", HOST),
        (f"/content?key={KEY}", "Host: evil.example"),
    )  # fmt: skip
    found = await of_page(Source(), key, *requests)
    source = Source()
    source.error = LocalError("the store is away")
    found += await of_page(source, key, (f"/content?key={KEY}", HOST))
    found = re.sub(r"<script>.*?</script>", "<script>…</script>", found, flags=re.S)
    assert snapshot(extension_class=Words) == found


@pytest.mark.parametrize("state", ["healthy", "limbo", "approval", "blocked"])
def test_the_content_of_the_page(state: str, snapshot: SnapshotAssertion) -> None:
    clusters: list[Shown] = [cluster_of(state)]
    if state == "healthy":
        clusters.append(Unreadable("shelf", "other", "it is <not> as it must be"))
    text = BLOCKS.sub(r"\n\1", content(clusters, now=NOW))
    assert snapshot(extension_class=Words) == text


PARTS: Final = ("avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999")
SUMMARIES: Final = (
    "readlatency", "fsynctime", "ledgers_read_per_namespace", 'a"b\\c_write_per_namespace',
)  # fmt: skip
MNTR: Final = (
    "zk_version\t3.9.5-abc, built on 2026-01-01\n"
    "zk_server_state\tstandalone\nzk_znode_count\t9\n"
    "zk_avg_latency\t0.5\nzk_min_latency\t0\nzk_max_latency\t7\nzk_jvm-pause.time\t8\n"
    + "".join(
        f"zk_{part}_{name}\t{10 * place + number}.5\n"
        for place, name in enumerate(SUMMARIES, 1)
        for number, part in enumerate(PARTS)
    )
)


@contextmanager
def zookeeper(answer: str) -> Iterator[tuple[str, int]]:
    """A server that answers one command so, and says which one it was."""

    def talk() -> None:
        connection, _peer = listener.accept()
        with connection:
            command = connection.recv(4).decode()
            connection.sendall(answer.replace("COMMAND", command).encode())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        talking = threading.Thread(target=talk)
        talking.start()
        yield "127.0.0.1", listener.getsockname()[1]
        talking.join()


async def scraped(address: tuple[str, int], *paths: str) -> str:
    with Exporter(("127.0.0.1", 0), address) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        found = "\n".join([await answer_to(server.port, path) for path in paths])
        server.shutdown()
        serving.join()
    return found.replace(f":{address[1]} ", ":PORT ")


async def test_figures_of_a_zookeeper(snapshot: SnapshotAssertion) -> None:
    with zookeeper(MNTR) as address:
        found = await scraped(address, "/metrics?of=prometheus")
    assert snapshot(extension_class=Words) == f"mntr says\n{MNTR}\n{found}"


async def test_a_zookeeper_that_gives_none(snapshot: SnapshotAssertion) -> None:
    with zookeeper("COMMAND is not executed because it is not in the whitelist.\n") as address:
        found = await scraped(address, "/metrics", "/", "/healthz")
    with zookeeper("") as address:
        found += await scraped(address, "/metrics")
    found += await scraped(("127.0.0.1", 1), "/metrics")
    assert snapshot(extension_class=Words) == found


def test_the_command_of_the_exporter(snapshot: SnapshotAssertion) -> None:
    def run(*words: object) -> Any:
        return CliRunner().invoke(exporter, list(map(str, words)), prog_name="exporter")

    shell = ShellRecord("exporter", run)
    shell("--zookeeper", "localhost")
    shell("--zookeeper", "localhost:x")
    shell("--port", 65536)
    shell("--bind", "192.0.2.1", "--port", 0)
    assert snapshot(extension_class=Words) == shell.text
