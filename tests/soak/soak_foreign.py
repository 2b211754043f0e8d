"""A second cluster in the same ZooKeeper, with the same bookie ids, on the addresses of the first.

Its bookies hold other entries under the ids of the first one's ledgers, whose digests are right.
Nobody of the first cluster may read them, be denied anything by them, or give them anything.

As soon as a bookie is down its ports lead to its namesake, who serves already: within seconds the
first cluster's clients would know that the address is nobody's.
"""

import asyncio
import errno
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bookie.ids import LedgerId
from bookie.metadata.opening import open_store
from bookie.protocol.status import Status
from bookie.wire.identity import Identity
from payload_rule import PayloadRule
from promises import Findings
from soak_bookies import SoakBookie, SoakError
from soak_line import lead
from soak_probe import Probe
from soak_report import Tally

ROOT: Final = "other"
OTHER_SEED: Final = 1_000_003
"""Added to the soak's: other payloads."""
LEDGERS: Final = 40
ENTRIES: Final = 20
HTTP_WAIT_S: Final = 10.0
TAKEN: Final = ("run", "stock", "admin")
"""The ports that are led to a namesake."""
COUNTERS: Final = ("bookie_entries_added_total", "bookie_fences_total", "bookie_reads_total")
SENT_AWAY: Final = 'bookie_refused_total{status="bad_request"}'
"""Of those who connected to it and meant ours."""


class Foreign:
    """The other cluster. Its bookies are made when they are first needed and run one at a time."""

    def __init__(self, folder: Path, *, metadata_url: str, seed: int) -> None:
        self._folder = folder
        self._url = f"{metadata_url.rpartition('/')[0]}/{ROOT}"
        self._rule = PayloadRule(seed + OTHER_SEED)
        self._bookies: dict[str, SoakBookie] = {}
        self._given: dict[str, int] = {}
        """Entries that the one who is prepared holds since its start."""
        self._cluster = ""

    async def start(self) -> None:
        """An empty cluster."""
        self._folder.mkdir(parents=True)
        store = await open_store(self._url)
        self._cluster = await store.initialise()
        await store.close()

    def end(self) -> None:
        for bookie in self._bookies.values():
            bookie.end()

    async def prepare(self, name: str, ledgers: Iterable[int]) -> None:
        """The bookie of this name serves, on ports of its own, and holds entries of the newest of
        these ledgers: nobody waits for its boot when the address is free."""
        bookie = self._bookies.get(name)
        if bookie is None:
            bookie = SoakBookie(name, self._folder / name, metadata_url=self._url, mode="journal")
            self._bookies[name] = bookie
        bookie.start()
        await bookie.serving()
        self._given[name] = await self._give(bookie, sorted(ledgers)[-LEDGERS:])

    async def take(
        self, name: str, ports: dict[str, int], *, hold_s: float, findings: Findings, tally: Tally
    ) -> None:
        """It is met on these ports for so long; whose they were is down."""
        bookie, given = self._bookies[name], self._given.pop(name)
        leads: list[asyncio.Server] = []
        try:
            for kind in TAKEN:
                leads.append(await lead(bookie.ports()[kind], port=ports[kind]))
            await asyncio.sleep(hold_s)
            sent_away = await self._judge(bookie, given, findings)
            tally.asked["sent away by a namesake"] += sent_away
            tally.asked["foreign entries at the address"] += given
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            tally.asked["address already in use"] += 1
        finally:
            for one in leads:
                one.close()
            await bookie.stop()

    async def _give(self, bookie: SoakBookie, ledgers: list[int]) -> int:
        """Entries under these ids; how many it took. Older ones it has already."""
        probe = await Probe.open(bookie.ports()["run"], Identity(self._cluster, bookie.name))
        if probe is None:
            raise SoakError(f"{bookie.name} of the other cluster does not greet: {bookie.log}")
        given = 0
        for ledger_id in map(LedgerId, ledgers):
            payloads = [self._rule.payload(ledger_id, entry_id) for entry_id in range(ENTRIES)]
            status = await probe.add(ledger_id, 0, payloads)
            given += ENTRIES * (status is Status.OK)
        await probe.close()
        return given

    async def _judge(self, bookie: SoakBookie, given: int, findings: Findings) -> int:
        """It was given what we gave it, and asked nothing; how often it sent somebody away."""
        values = await asyncio.to_thread(_counters, bookie.ports()["http"])
        found = [int(values[name]) for name in COUNTERS]
        if found != [given, 0, 0]:
            findings.add_wrong(
                f"{bookie.name} of another cluster, at the address of ours, counts {COUNTERS} "
                f"{found}, expected {[given, 0, 0]}: {bookie.log}"
            )
        return int(values.get(SENT_AWAY, 0))


def _counters(port: int) -> dict[str, float]:
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=HTTP_WAIT_S) as page:
        lines = page.read().decode().splitlines()
    values = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in values}
