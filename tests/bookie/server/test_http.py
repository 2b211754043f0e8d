"""Probes and metrics: alive from the start, ready when it can serve, limbo or not."""

import asyncio
from collections import Counter
from typing import Any

import aiohttp
import pytest
from bookie.protocol.status import Status
from bookie.server.http import BookieCollector, Gauges
from bookie.server.state import AuthFailure, BookieState, CutOff, Phase, ReadOnlyReason, Traffic
from bookie.storage.durations import Durations
from prometheus_client import generate_latest
from server_lab import ServerLab, frame


async def get(lab: ServerLab, path: str) -> tuple[int, str]:
    assert lab.bookie is not None
    url = f"http://127.0.0.1:{lab.bookie.ports['http']}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def metrics(lab: ServerLab) -> dict[str, float]:
    status, text = await get(lab, "/metrics")
    assert status == 200
    return parsed(text)


def parsed(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def test_a_serving_bookie_is_alive_and_ready(server: ServerLab) -> None:
    assert await get(server, "/healthz") == (200, "alive: SERVING\n")
    assert await get(server, "/readyz") == (200, "SERVING\n")


async def test_a_booting_bookie_is_alive_and_not_ready(idle_server: ServerLab) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: bool(bookie.state.message))
    assert (await get(idle_server, "/healthz"))[0] == 200
    status, text = await get(idle_server, "/readyz")
    assert status == 503 and text.startswith("BOOTING: waiting for the metadata store")


async def test_what_only_a_boot_finds_out_is_no_figure_before(idle_server: ServerLab) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: bool(bookie.state.message))
    found = await metrics(idle_server)
    unknown = {f"bookie_{name}" for name in ("limbo_ledgers", "unchecked_ledgers", "boot_clean")}
    assert not {*unknown, "bookie_boot_epoch"} & found.keys() and found["bookie_ready"] == 0


async def test_a_refused_bookie_says_why(server: ServerLab) -> None:
    await server.stop()
    server.overwrite(server.directories[0] / "STAMP", b"{")
    bookie = server.begin()
    await server.until(lambda: bookie.state.phase is Phase.REFUSED)
    status, text = await get(server, "/readyz")
    assert status == 503 and "is no stamp" in text


async def test_limbo_does_not_make_it_unready(server: ServerLab) -> None:
    await server.ledger()
    await server.restart()
    assert (await get(server, "/readyz"))[0] == 200
    found = await metrics(server)
    assert found["bookie_limbo_ledgers"] == 1 and found["bookie_boot_clean"] == 0


async def test_what_it_did_is_counted(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 5)
    await asyncio.gather(server.held(ledger, 0, 4), server.fence(ledger), server.add(99, 0))
    await server.add(ledger, 5)
    found = await metrics(server)
    assert found["bookie_entries_added_total"] == 6
    assert found["bookie_runs_added_total"] == 2
    assert found["bookie_reads_total"] == found["bookie_fences_total"] == 1
    assert found['bookie_refused_total{status="fenced"}'] == 1
    assert found['bookie_phase{phase="serving"}'] == found["bookie_writable"] == 1
    assert found["bookie_boot_epoch"] == 1


async def test_figures_that_are_alike_are_not_each_other(server: ServerLab) -> None:
    for _ in range(2):
        await server.ledger()
    await server.ledger(closed_at=3)
    await server.restart()
    sent = frame(await server.ledger(), 0, 5)
    await server.send(sent)
    found = await metrics(server)
    assert (found["bookie_limbo_ledgers"], found["bookie_unchecked_ledgers"]) == (2, 1)
    assert found["bookie_added_bytes_total"] == found["bookie_unflushed_bytes"] == len(sent)
    for directory in server.directories:
        space = server.disk.space(directory)
        free = found[f'bookie_free_bytes{{directory="{directory}"}}']
        assert free == space.free_bytes < space.total_bytes


@pytest.mark.parametrize("entries", [1, 7])
async def test_bytes_are_those_of_whole_frames(server: ServerLab, entries: int) -> None:
    ledger = await server.ledger()
    sent = frame(ledger, 0, entries)
    for _ in range(3):
        await server.send(sent)
    await server.flush()
    await server.held(ledger, 0, entries - 1)
    found = await metrics(server)
    assert found["bookie_added_bytes_total"] == 3 * len(sent)
    assert found["bookie_entries_added_total"] == 3 * entries
    assert found["bookie_read_bytes_total"] == len(sent)
    assert found["bookie_reads_total"] == 1 and found["bookie_unflushed_bytes"] == 0


async def test_connections_that_are_not_authenticated_are_counted(server: ServerLab) -> None:
    server.traffic.unauthenticated = 3
    server.traffic.authentication_failures[AuthFailure.CROWD] += 2
    found = await metrics(server)
    failures = "bookie_stock_authentication_failures_total"
    assert found["bookie_stock_unauthenticated"] == 3
    assert (found[f'{failures}{{reason="crowd"}}'], found[f'{failures}{{reason="plain"}}']) == (
        2,
        0,
    )


EACH_ITS_OWN = """\
bookie_runs_added_total 2
bookie_entries_added_total 3
bookie_added_bytes_total 4
bookie_reads_total 5
bookie_read_bytes_total 6
bookie_fences_total 7
bookie_limbo_cleared_total 8
bookie_slow_clients_total 9
bookie_stock_garbage_total 10
bookie_connections 11
bookie_reply_bytes 12
bookie_long_polls 13
bookie_stock_unauthenticated 14
bookie_refused_total{status="unknown"} 15
bookie_refused_total{status="fenced"} 16
bookie_tls_failures_total{port="run"} 17
bookie_tls_failures_total{port="stock"} 18
bookie_tls_connections{port="run"} 19
bookie_tls_connections{port="stock"} 20
bookie_stock_connections{wire="v2"} 21
bookie_stock_connections{wire="v3"} 22
bookie_connections_cut_off_total{reason="full"} 23
bookie_connections_cut_off_total{reason="silent"} 24
bookie_connections_cut_off_total{reason="unfinished"} 25
bookie_connections_cut_off_total{reason="memory"} 26
bookie_connections_cut_off_total{reason="http"} 27
bookie_stock_authentication_failures_total{reason="credentials"} 28
bookie_stock_authentication_failures_total{reason="plugin"} 29
bookie_stock_authentication_failures_total{reason="plain"} 30
bookie_stock_authentication_failures_total{reason="silence"} 31
bookie_stock_authentication_failures_total{reason="crowd"} 32
bookie_ledgers_missing 33
bookie_tombstones 34
bookie_boot_epoch 35
bookie_limbo_ledgers 36
bookie_unchecked_ledgers 37
bookie_noted_ledgers 38
bookie_unflushed_bytes 39
bookie_free_bytes{directory="/a"} 40
bookie_free_bytes{directory="/b"} 41
bookie_certificate_expiry_timestamp_seconds 42
bookie_add_wait_seconds_sum 43
bookie_read_wait_seconds_sum 44
bookie_checkpoint_seconds_sum 45
bookie_sync_seconds_sum{directory="/a",stream="journal"} 46
bookie_sync_seconds_sum{directory="/b",stream="log"} 47
"""
"""Every counter, level and sum of durations of `numbered`; 0 and 1 are flags, and counts of one."""


def lasting(seconds: float) -> Durations:
    one = Durations()
    one.observe(seconds)
    return one


def numbered() -> tuple[BookieState, Gauges]:
    """A bookie no two of whose figures are the same number."""
    traffic = Traffic(
        runs_added=2,
        entries_added=3,
        bytes_added=4,
        reads=5,
        bytes_read=6,
        fences=7,
        limbo_cleared=8,
        slow_clients=9,
        garbage=10,
        connections=11,
        reply_bytes=12,
        long_polls=13,
        unauthenticated=14,
        refused=Counter({Status.UNKNOWN: 15, Status.FENCED: 16}),
        tls_failures=Counter(run=17, stock=18),
        tls_connections=Counter(run=19, stock=20),
        stock_connections=Counter(v2=21, v3=22),
        cut_off=Counter({cause: n for n, cause in enumerate(CutOff, 23)}),
        authentication_failures=Counter({why: n for n, why in enumerate(AuthFailure, 28)}),
        add_waits=lasting(43),
        read_waits=lasting(44),
    )
    gauges = Gauges(
        boot_epoch=35,
        limbo_ledgers=36,
        unchecked_ledgers=37,
        noted_ledgers=38,
        unflushed_bytes=39,
        free_bytes={"/a": 40, "/b": 41},
        certificate_ends_s=42,
        checkpoints=lasting(45),
        syncs={("journal", "/a"): lasting(46), ("log", "/b"): lasting(47)},
    )
    return BookieState("bookie-0", ledgers_missing=33, tombstones=34, traffic=traffic), gauges


def test_every_figure_is_its_own_and_no_other() -> None:
    found = parsed(generate_latest(BookieCollector(*numbered())).decode())
    assert {name: n for name, n in found.items() if n > 1} == parsed(EACH_ITS_OWN)


@pytest.mark.parametrize(
    ("flag", "facts"),
    [
        ("boot_clean", {}),
        ("leased", {"is_leased": False}),
        ("collection_held", {"collection_held": "unusually many"}),
        ("metadata_rolled_back", {"metadata_rolled_back": "older"}),
    ],
)
def test_a_flag_is_raised_for_what_it_names_alone(flag: str, facts: dict[str, Any]) -> None:
    calm = figures(BookieState("bookie-0"), Gauges(boot_clean=False))
    told = figures(BookieState("bookie-0", **facts), Gauges(boot_clean=not facts))
    assert {name for name in calm if calm[name] != told[name]} == {f"bookie_{flag}"}


def figures(state: BookieState, gauges: Gauges | None = None) -> dict[str, float]:
    found = BookieCollector(state, gauges or Gauges()).collect()
    return {one.name: one.value for metric in found for one in metric.samples if not one.labels}


@pytest.mark.parametrize("phase", Phase)
def test_only_who_serves_is_ready_and_writable(phase: Phase) -> None:
    found = figures(BookieState("bookie-0", phase))
    assert found["bookie_ready"] == phase.serves
    assert found["bookie_writable"] == (phase is Phase.SERVING)


@pytest.mark.parametrize("reason", ReadOnlyReason)
def test_who_takes_no_adds_is_ready_and_not_writable(reason: ReadOnlyReason) -> None:
    state = BookieState("bookie-0", Phase.SERVING, clock=lambda: 7.0)
    for is_on in (True, False):
        if reason is ReadOnlyReason.LEASE:
            state.extend_lease(7.0 if is_on else 8.0)
        else:
            state.switch_read_only(reason, is_on)
        found = figures(state)
        assert (found["bookie_ready"], found["bookie_writable"]) == (1, not is_on)


async def test_reads_and_syncs_and_checkpoints_are_timed(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 5)
    await server.held(ledger, 0, 4)
    assert server.bookie is not None
    await server.flush()
    found = await metrics(server)
    assert found["bookie_read_wait_seconds_count"] == 1
    assert found["bookie_checkpoint_seconds_count"] >= 1
    counts = [n for name, n in found.items() if name.startswith("bookie_sync_seconds_count{")]
    assert len(counts) == len(server.directories) and any(counts)
    assert found["bookie_add_wait_seconds_count"] == 0, "in memory mode no add waits for a disk"


async def test_each_add_that_waits_for_a_sync_is_timed(idle_server: ServerLab) -> None:
    idle_server.tree["durability"] = {"journalWriteData": False, "ack": "sync"}
    await idle_server.start()
    ledger = await idle_server.ledger()
    for entry_id in range(3):
        assert await idle_server.add(ledger, entry_id) is Status.OK
    found = await metrics(idle_server)
    assert found["bookie_add_wait_seconds_count"] == 3
    assert 0 < found["bookie_add_wait_seconds_sum"] < 60


async def test_an_unknown_page_is_not_found(server: ServerLab) -> None:
    assert (await get(server, "/nothing"))[0] == 404


async def test_a5_what_is_wrong_with_the_metadata_store_has_figures(server: ServerLab) -> None:
    calm = await metrics(server)
    assert calm["bookie_metadata_rolled_back"] == calm["bookie_collection_held"] == 0
    assert server.bookie is not None
    server.bookie.state.metadata_rolled_back = "older"
    server.bookie.state.tombstones = 7
    told = await metrics(server)
    assert (told["bookie_metadata_rolled_back"], told["bookie_tombstones"]) == (1, 7)
    assert told["bookie_leased"] == 1
