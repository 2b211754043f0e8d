"""Asks the processes of one bookie what clients cannot: each by itself, before a repair.

Ledgers of the witness name the bookie, and it alone is given entries. Whatever of these it takes,
no process that comes after it may deny; and once that one serves, the former may deny nothing and
take nothing.
"""

from collections.abc import Sequence
from typing import Final, Self

from bookie.errors import BookieError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.look.cluster import Cluster
from bookie.wire.identity import Identity
from payload_rule import PayloadRule
from promises import Findings
from soak_bookies import SoakBookie
from soak_probe import NOBODYS, Probe
from soak_report import Tally

ASKED_MAX: Final = 50
"""Entries of one witness that a successor is asked for: the newest."""


class Witness:
    """Of one story, with a connection to the process that there is at its beginning."""

    def __init__(
        self,
        cluster: Cluster,
        bookie: SoakBookie,
        others: Sequence[str],
        *,
        probe: Probe,
        meant: Identity,
    ) -> None:
        self._cluster, self._bookie, self._probe, self._meant = cluster, bookie, probe, meant
        self._names = tuple(map(BookieId, [bookie.name, *others]))
        self._ledgers: list[LedgerId] = []
        self._taken: list[tuple[LedgerId, int]] = []

    @classmethod
    async def open(cls, cluster: Cluster, bookie: SoakBookie, others: Sequence[str]) -> Self | None:
        """None when the metadata store or the bookie is away just now."""
        try:
            meant = Identity(await cluster.store.instance_id() or "", bookie.name)
        except BookieError:
            return None
        probe = await Probe.open(bookie.ports().get("run", 0), meant)
        if probe is None:
            return None
        witness = cls(cluster, bookie, others, probe=probe, meant=meant)
        await witness._begin()
        return witness

    async def write(self, rule: PayloadRule) -> None:
        """An entry more of the oldest ledger, and one of a new one, which no look of a successor
        may have met; if the store and the bookie take them."""
        for ledger_id in self._ledgers[:1] + await self._begin():
            following = sum(taken == ledger_id for taken, _entry in self._taken)
            payload = rule.payload(ledger_id, following)
            if await self._probe.add(ledger_id, following, [payload]) is Status.OK:
                self._taken.append((ledger_id, following))

    async def _begin(self) -> list[LedgerId]:
        """A new ledger that names the bookie; none when the store is away."""
        names = self._names
        fragments = (Fragment(EntryId(0), names),)
        try:
            ledger_id = await self._cluster.store.new_ledger_id()
            metadata = LedgerMetadata(ledger_id, len(names), len(names), 2, fragments)
            await self._cluster.store.create_ledger(metadata)
        except BookieError:
            return []
        self._ledgers.append(ledger_id)
        return [ledger_id]

    async def judge_former(self, findings: Findings, tally: Tally) -> None:
        """To be asked when the successor is seen to serve; what it sleeps through waits for it."""
        said = await self._probe.read(NOBODYS, 0)
        tally.asked[f"former: {said.name}"] += 1
        if said.is_denial:
            findings.add_wrong(
                f"{self._bookie.name} says {said.name} though another process serves as it"
            )
        for ledger_id in self._ledgers[:1]:
            if await self._probe.add(ledger_id, len(self._taken), [b"too late"]) is Status.OK:
                findings.add_wrong(
                    f"{self._bookie.name} takes an add of ledger {ledger_id} though another "
                    "process serves as it"
                )

    async def judge_successor(
        self, successor: SoakBookie, findings: Findings, tally: Tally
    ) -> None:
        """What the former took may be unknown to it."""
        probe = await Probe.open(successor.ports().get("run", 0), self._meant)
        if probe is None:
            return
        for ledger_id, entry_id in self._taken[-ASKED_MAX:]:
            said = await probe.read(ledger_id, entry_id)
            tally.asked[f"successor: {said.name}"] += 1
            if said.is_denial:
                findings.add_wrong(
                    f"{successor.name} ({successor.mode}) says {said.name} of ledger "
                    f"{ledger_id} entry {entry_id}, which its former process had taken"
                )
        await probe.close()

    async def close(self) -> None:
        await self._probe.close()
