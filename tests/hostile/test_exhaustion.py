"""A real bookie whose memory is limited, everything at once that costs memory or places, and an
honest client beside it: it is served, and the bookie lives.
"""

import asyncio
import contextlib
import random
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import grpc
import pytest
import yaml
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.hosts import at_port, loopback
from bookie.ids import EntryId, LedgerId
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.log_rate import STRETCH_S
from bookie.testing.certificates import Authority
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Role
from bookie.wire.native import ReadRequest
from bookie_processes import BookieProcess
from server_lab import ENSEMBLE, KEY, ME, frame

pytestmark = pytest.mark.process
MIB = 2**20
MEMORY_BYTES = 3072 * MIB
"""Address space of the bookie: threads and libraries reserve 1.5 GiB of it and use a tenth."""
RESIDENT_MIB_MAX = 450
"""At the worst; a bookie with these settings at rest has 110 to 140."""
LOG_BYTES_MAX = 256 * 1024
"""In each stretch of the rate that lines are held to; unbounded, they are a multiple of it."""
WAIT_S = 30.0
HONEST_WAIT_S = 10.0
"""For one add and one read, on a machine that others keep busy."""
LIMITS = {
    "connections": 64, "requestBytes": 32 * MIB, "requestSeconds": 2.0, "replyBytes": 16 * MIB,
    "replySeconds": 2.0, "controlConnections": 16, "controlCalls": 8,
    "httpConnections": 16, "httpSeconds": 2.0,
}  # fmt: skip


@dataclass
class Besieged:
    """The bookie, who attacks it, and who only wants to use it."""

    process: BookieProcess
    store: MetadataStore
    pool: BookiePool
    authority: Authority
    attackers: list["asyncio.Task[None]"] = field(default_factory=list)
    is_over: bool = False
    """Attackers stop: `wait_for` may lose the one cancellation that they get."""

    async def attack(self, times: int, strike: Callable[[], Awaitable[None]]) -> None:
        """So many at once do this again and again, until the end."""

        async def strikes() -> None:
            while not self.is_over:
                with contextlib.suppress(OSError, EOFError, TimeoutError, grpc.aio.AioRpcError):
                    await strike()
                await asyncio.sleep(0.01)

        self.attackers += [asyncio.create_task(strikes()) for _ in range(times)]

    async def hold(self, port: str, *parts: bytes, every_s: float = 0.0) -> None:
        """Sends these, then one byte now and then, until it is ended."""
        reader, writer = await asyncio.open_connection(loopback(), self.process.ports()[port])
        try:
            writer.writelines(parts)
            async with asyncio.timeout(8):
                while not reader.at_eof():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1 << 16), every_s or 8)
                    writer.write(b"\0" if every_s else b"")
        finally:
            writer.transport.abort()

    async def call(self, raw: bytes) -> None:
        """A client's certificate may not call; its megabytes are taken all the same."""
        holder = CredentialsFolder(self.authority.folder / "client")
        target = at_port("localhost", self.process.ports()["admin"])
        async with grpc.aio.secure_channel(target, holder.channel_credentials()) as channel:
            call = channel.unary_unary("/bookie.wire.admin.BookieAdmin/GetAvailability")
            await asyncio.gather(*(call(raw, timeout=5) for _ in range(20)), return_exceptions=True)  # type: ignore[misc]

    async def ledger(self) -> LedgerId:
        fragments = (Fragment(EntryId(0), ENSEMBLE),)
        metadata = LedgerMetadata(await self.store.new_ledger_id(), 3, 3, 2, fragments)
        await self.store.create_ledger(metadata)
        return metadata.ledger_id

    async def honest_turn(self, ledger_id: LedgerId, entry_id: int) -> float:
        """One add and one read, tried as every client does; how long they took together."""
        begun = time.monotonic()
        async with asyncio.timeout(HONEST_WAIT_S):
            while await self._add(ledger_id, entry_id) is not Status.OK:
                await asyncio.sleep(0.02)
            request = ReadRequest(ledger_id, EntryId(entry_id), EntryId(entry_id), 1000, KEY)
            while (await self.pool.read(ME, request))[0] is not Status.OK:
                await asyncio.sleep(0.02)
        return time.monotonic() - begun

    async def _add(self, ledger_id: LedgerId, entry_id: int) -> Status:
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.pool.add_run(
            ME, master_key=KEY, frame=frame(ledger_id, entry_id), on_reply=answer.set_result
        )
        return await answer

    async def figures(self) -> dict[str, float]:
        """Of /metrics, tried until there is a place."""
        url = f"http://{at_port(loopback(), self.process.ports()['http'])}/metrics"
        async with asyncio.timeout(WAIT_S), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(url) as answer:
                        text = await answer.text()
                        break
                await asyncio.sleep(0.05)
        rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in rows}

    @property
    def resident_mib(self) -> int:
        """The most that it ever had."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(text.split("VmHWM:")[1].split()[0]) // 1024


@pytest.fixture
async def besieged(tmp_path: Path, zookeeper_url: str) -> AsyncIterator[Besieged]:
    authority = Authority.make(tmp_path / "certificates", "ours")
    bookie, client = authority.sign(ME, Role.BOOKIE), authority.sign("client")
    process = BookieProcess(ME, tmp_path / "bookie", zookeeper_url)
    tree = yaml.safe_load(process.config.read_text(encoding="utf-8"))
    tree |= {"limits": LIMITS, "tls": {"directory": str(bookie.folder), "handshakeSeconds": 2.0}}
    process.config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    store = await open_store(zookeeper_url)
    await store.initialise()
    process.start()
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    tls = ClientTls(CredentialsFolder(client.folder))
    pool = BookiePool(store, settings=PoolSettings(backoff_min_s=0.01, tls=tls))
    found = Besieged(process, store, pool, authority)
    async with asyncio.timeout(WAIT_S):
        while ME not in await store.bookies():
            await asyncio.sleep(0.05)
    yield found
    found.is_over = True
    process.kill()
    for attacker in found.attackers:
        attacker.cancel()
    if found.attackers:
        await asyncio.wait(found.attackers, timeout=WAIT_S)
    await pool.close()
    await store.close()


HELLO_OF_TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def cut_off(figures: Mapping[str, float]) -> float:
    """Connections to data ports that were cut off for the sake of others."""
    counted = [v for k, v in figures.items() if k.startswith("bookie_connections_cut_off_total")]
    return sum(counted) - figures['bookie_connections_cut_off_total{reason="http"}']


async def test_whoever_floods_a_bookie_stops_nobody_and_takes_little_memory(
    besieged: Besieged,
) -> None:
    begun = time.monotonic()
    noise, request = random.Random(21).randbytes(3 * MIB), b"GET /metrics HTTP/1.1\r\nX: "
    ledger_id = await besieged.ledger()
    await besieged.honest_turn(ledger_id, 0)
    await besieged.attack(40, lambda: besieged.hold("run"))
    await besieged.attack(40, lambda: besieged.hold("stock", HELLO_OF_TLS, every_s=0.5))
    await besieged.attack(10, lambda: besieged.hold("run", b"\x7f\xff\xff\xff" * 4))
    await besieged.attack(20, lambda: besieged.hold("http", request, every_s=0.5))
    await besieged.attack(10, lambda: besieged.hold("admin", HELLO_OF_TLS))
    await besieged.attack(3, lambda: besieged.call(noise))
    took = [await besieged.honest_turn(ledger_id, entry_id) for entry_id in range(1, 200)]
    figures = await besieged.figures()
    assert besieged.process.is_running, besieged.process.words
    assert sum(v for k, v in figures.items() if k.startswith("bookie_tls_failures_total")) > 50
    log_bytes = (besieged.process.folder / "log").stat().st_size
    # The bookie may be in its second stretch when the first attack begins.
    stretches = 2 + int((time.monotonic() - begun) / STRETCH_S)
    print(f"slowest {max(took):.2f} s, {besieged.resident_mib} MiB, {log_bytes} bytes", figures)
    assert besieged.resident_mib < RESIDENT_MIB_MAX and log_bytes < stretches * LOG_BYTES_MAX


async def test_members_of_the_fleet_that_go_wild_take_little_memory_too(
    besieged: Besieged,
) -> None:
    ledger_id = await besieged.ledger()
    await besieged.honest_turn(ledger_id, 0)
    context = CredentialsFolder(besieged.authority.folder / "client").client_context()
    port = besieged.process.ports()["run"]

    async def begin() -> None:
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
        writer.write(b"\0\x40\0\0\x02" + bytes(4 * MIB - 1000))
        try:
            async with asyncio.timeout(8):
                while await reader.read(1 << 16):
                    pass
        finally:
            writer.transport.abort()

    await besieged.attack(40, begin)
    took = [await besieged.honest_turn(ledger_id, entry_id) for entry_id in range(1, 100)]
    async with asyncio.timeout(WAIT_S):
        while not cut_off(await besieged.figures()):
            await asyncio.sleep(0.1)
    print(f"slowest {max(took):.2f} s, {besieged.resident_mib} MiB", await besieged.figures())
    assert besieged.process.is_running and besieged.resident_mib < RESIDENT_MIB_MAX
