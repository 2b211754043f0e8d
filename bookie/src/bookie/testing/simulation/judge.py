"""After the faults: what a healed cluster must come to, by itself and soon.

Every ledger is closed, all bookies serve without marks, everything acknowledged is read back, and a
repair of everything leaves nothing for the audit to find. Of a plan beyond the loss budget less is
demanded: nothing is dropped silently, and a person's decisions end what nobody else can decide.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bookie.client.ledgers import Client
from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import BookieError, DataLossError, NoSuchLedgerError
from bookie.protocol.ids import LedgerId
from bookie.repair.accept_loss import accept_loss
from bookie.repair.audit_steps import audit
from bookie.repair.cluster import Cluster
from bookie.repair.steps import RepairRequest, repair
from bookie.testing.simulation import clients
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.clients import PASSWORD, REPAIR, Shared
from bookie.testing.simulation.plan import LASTING, Plan

HEAL_S: Final = 200.0
"""After healing, everything must be well within so long."""
ACCEPT_S: Final = 40.0
"""Beyond the budget, a person accepts losses after waiting so long."""


class Judge:
    """See the module. `faults`: how many of which kind there were."""

    def __init__(
        self,
        plan: Plan,
        bookies: Sequence[SimBookie],
        shared: Shared,
        faults: Mapping[str, int],
    ) -> None:
        self._plan = plan
        self._bookies = bookies
        self._shared = shared
        self._history = shared.history
        self._faults = faults
        self._began = asyncio.get_running_loop().time()

    async def run(self, store: MetadataStore) -> None:
        """The demands, one after the other."""
        async with clients.cluster_of(self._shared, store) as cluster:
            await self._close_all(cluster)
            await self._until_unmarked()
            await self._read_all(store)
            await self._repair_all(cluster)

    def _waited_s(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _is_over(self, what: str, why: object) -> bool:
        """True, and a violation, when this has taken too long."""
        if self._waited_s() <= HEAL_S:
            return False
        self._history.violate(f"{what} {HEAL_S:.0f} s after healing: {why}")
        return True

    async def obey_refusals(self) -> None:
        """A person does what a bookie asks for that refuses to boot; where disks lied or rotted.

        Anywhere else a refusal is a defect: an ordinary crash must need nobody.
        """
        while True:
            await asyncio.sleep(1.0)
            for bookie in self._bookies:
                refusal = bookie.refusal
                if refusal and not LASTING & self._faults.keys():
                    self._history.violate(f"{bookie.name} refuses to boot: {refusal}")
                    return
                if refusal:
                    self._history.note(f"a person helps {bookie.name}: {refusal}")
                    _empty_what_is_named(bookie, refusal)

    async def _close_all(self, cluster: Cluster) -> None:
        ledgers = self._history.ledgers
        left = [i for i, one in ledgers.items() if one.metadata is not None]
        async with clients.client_of(self._shared, cluster.store) as client:
            while left:
                left = [i for i in left if not await self._close(client, cluster, i)]
                await asyncio.sleep(1.0 if left else 0.0)

    async def _close(self, client: Client, cluster: Cluster, ledger_id: LedgerId) -> bool:
        """True when there is nothing more to be done."""
        try:
            reader = await client.recover_ledger(ledger_id, password=PASSWORD)
        except NoSuchLedgerError:
            return True
        except BookieError as error:
            if self._is_over(f"ledger {ledger_id} cannot be closed", error):
                return True
            if not self._plan.keeps_budget and self._waited_s() > ACCEPT_S:
                await self._accept(cluster, ledger_id)
            return False
        self._history.opened(ledger_id, reader.last_entry_id)
        return True

    async def _accept(self, cluster: Cluster, ledger_id: LedgerId) -> None:
        self._shared.lossy.add(ledger_id)
        self._history.ledger(ledger_id).end_accepted = True
        try:
            decision = await accept_loss(cluster, ledger_id, by="judge", reason="beyond the budget")
        except BookieError as error:
            self._history.note(f"a loss of ledger {ledger_id} is not accepted: {error}")
            self._replace_what_is_unreadable(str(error))
        else:
            self._history.note(f"accepted: ledger {ledger_id} from {decision.lost_from}")

    def _replace_what_is_unreadable(self, refusal: str) -> None:
        """What a disk shows and cannot give bars a decision; a person does what is asked for."""
        for bookie in self._bookies:
            if bookie.is_up and f"{bookie.name} lists " in refusal:
                self._history.note(f"a person replaces the ledger disks of {bookie.name}")
                bookie.crash(lambda disk: disk.kill())
                for place in range(1, len(bookie.directories)):
                    bookie.wipe(place)
                bookie.start()

    async def _until_unmarked(self) -> None:
        while marks := {b.name: b.marks for b in self._bookies if b.marks != 0}:
            states = {b.name: b.bookie.state.message for b in self._bookies if b.bookie}
            if self._is_over("bookies still have marks", f"{marks} {states}"):
                return
            await asyncio.sleep(0.25)

    async def _read_all(self, store: MetadataStore) -> None:
        async with clients.client_of(self._shared, store) as client:
            for ledger_id, known in list(self._history.ledgers.items()):
                if known.metadata is not None:
                    await self._read(client, ledger_id)

    async def _read(self, client: Client, ledger_id: LedgerId) -> None:
        reader = await client.open_ledger(ledger_id, password=PASSWORD)
        try:
            found = await clients.read_all(self._shared, reader)
        except DataLossError as error:
            expected = self._shared.losses_expected or ledger_id in self._shared.lossy
            self._history.lost(ledger_id, error.entry_id, expected=expected)
        except BookieError as error:
            if self._plan.keeps_budget:
                self._history.violate(f"ledger {ledger_id} cannot be read at the end: {error}")
        else:
            self._history.check_readable(ledger_id, found)

    async def _repair_all(self, cluster: Cluster) -> None:
        """What recovery did not judge may lack a copy: a repair of all ledgers ends that too."""
        while self._plan.keeps_budget:
            request = RepairRequest(engine="inline", every_ledger=True, settings=REPAIR)
            done = await repair(cluster, request)
            found = await audit(cluster)
            counts: dict[str, Any] = found["audit"]
            self._history.note(f"audit: {counts}")
            if not (done["exit_code"] or counts["missing"] or counts["unknown"] or counts["lost"]):
                return
            why = f"exit {done['exit_code']}, {found['findings'][:2]}, {done['blocked'][:2]}"
            if self._is_over(f"after a repair of everything the audit finds {counts}", why):
                return
            await asyncio.sleep(2.0)


def _empty_what_is_named(bookie: SimBookie, refusal: str) -> None:
    bookie.crash(lambda disk: disk.kill())
    for place, directory in enumerate(bookie.directories):
        if str(directory) in refusal:
            bookie.wipe(place)
    bookie.start()
