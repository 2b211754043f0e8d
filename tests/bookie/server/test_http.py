"""Probes and metrics: alive from the start, ready when it can serve, limbo or not."""

import asyncio

import aiohttp
import pytest
from bookie.protocol.status import Status
from bookie.server.http import BookieCollector, Gauges
from bookie.server.state import AuthFailure, BookieState, Phase, ReadOnlyReason
from server_lab import ServerLab, frame


async def get(lab: ServerLab, path: str) -> tuple[int, str]:
    assert lab.bookie is not None
    url = f"http://127.0.0.1:{lab.bookie.ports['http']}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def metrics(lab: ServerLab) -> dict[str, float]:
    status, text = await get(lab, "/metrics")
    assert status == 200
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


def figures(state: BookieState) -> dict[str, float]:
    found = BookieCollector(state, Gauges()).collect()
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
