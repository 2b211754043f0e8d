"""What TLS costs: the same appends to two fleets in turn, one in plain and one under mutual TLS.

Client and bookies share the machine's cores, so that what either spends on encryption shows.
`ratio`: of the rate in plain; at depth 1 of its median time, so that less is better there.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Final

from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.testing.certificates import Authority
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder

from benchmarks.bench_append import SETTLE_S, WATERMARK, Case, turn
from benchmarks.fleet import BOOKIES, Fleet, store_of, workplace
from benchmarks.rows import KIB, Options, Repeat, Row

GATED: Final = (
    Case(KIB, BOOKIES, "memory", WATERMARK),
    Case(KIB, BOOKIES, "memory", 1),
)
FULL: Final = (
    *GATED,
    Case(KIB, BOOKIES, "memory", 1024),
    Case(64 * KIB, BOOKIES, "memory", WATERMARK),
)


def rows(options: Options) -> Iterator[Row]:
    """Each case on both fleets, one after the other in each round."""
    with asyncio.Runner(loop_factory=options.loop) as runner:
        yield from runner.run(_measure(FULL if options.is_full else GATED, options))


async def _measure(cases: tuple[Case, ...], options: Options) -> list[Row]:
    found: dict[Case, list[Repeat]] = {case: [] for case in cases}
    async with AsyncExitStack() as stack:
        processes = stack.enter_context(ExitStack())
        folder, zookeeper = processes.enter_context(workplace(options.directory))
        authority = Authority.make(folder / "certificates", "bench")
        tls = ClientTls(CredentialsFolder(authority.sign("writer").folder))
        sides = []
        for signer, shown in ((None, None), (authority, tls)):
            fleet = Fleet(folder, zookeeper=zookeeper, authority=signer)
            processes.enter_context(fleet)
            store = await stack.enter_async_context(store_of(fleet))
            settings = ClientSettings(pool=PoolSettings(tls=shown))
            client = await stack.enter_async_context(Client(store, settings=settings))
            sides.append((client, fleet))
        for number in range(options.rounds + 1):
            for case in cases:
                repeats = []
                for client, fleet in sides:
                    repeats.append(await turn(case, client, fleet))
                    await asyncio.sleep(SETTLE_S)
                if number:  # the first one warms up
                    found[case].append(_compared(case, *repeats))
    return [Row("tls", case.what, tuple(found[case])) for case in cases]


def _compared(case: Case, plain: Repeat, ours: Repeat) -> Repeat:
    figure = "p50_us" if case.depth == 1 else "mib_per_s"
    compared = {f"plain_{name}": plain[name] for name in (figure, "client_us", "bookies_us")}
    return {**ours, **compared, "ratio": ours[figure] / plain[figure]}
