"""After the faults: what a healed cluster must come to, by itself and soon.

Every ledger is closed, all bookies serve without marks, a log of ledgers gives what its owners were
promised and can be opened again, everything acknowledged is read back, a repair of everything
leaves nothing for the audit to find, and every replica of every closed ledger gives its own copy of
all that it is to hold. Of a plan beyond the loss budget less is demanded: nothing is dropped
silently, and a person's decisions end what nobody else can decide.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bookie.client.bookkeeper_client import Client
from bookie.client.log_reading import LogEntry, read_log
from bookie.client.reader import LedgerReader
from bookie.client.writer import LedgerWriter
from bookie.errors import (
    BookieError,
    DataLossError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
)
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend.accept_loss import accept_loss
from bookie.testing.simulation import clients
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.clients import LOG_NAME, PASSWORD, REPAIR, Shared
from bookie.testing.simulation.log_history import log_violations
from bookie.testing.simulation.plan import LASTING, Plan
from bookie.testing.simulation.visitors import copies_missing

OLDER: Final = frozenset({"put-back", "twin"})
"""Faults after which disks are older than what the store knows of them."""
BEYOND: Final = 3
"""How many entries beyond the end of a ledger are requested."""
HEAL_S: Final = 200.0
"""Seconds after healing within which everything must work."""
WRITE_S: Final = 15.0
"""Within so long it takes a few entries and closes their ledger, once its bookies have looked for
space again: whoever found none does so at its next checkpoint."""
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
        """When the judge started, by the loop's clock; its time limit counts from here."""

    async def run(self, store: MetadataStore) -> None:
        """The demands, one after the other."""
        async with clients.cluster_of(self._shared, store) as cluster:
            await self._end_drains(cluster)
            await self._close_all(cluster)
            await self._until_unmarked()
            await self._judge_log(store)
            await self._write_again(store)
            await self._read_all(store)
            await self._repair_all(cluster)
            await self._ask_every_replica(cluster)

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
                if bookie.awaits_approval:
                    self._approve(bookie)
                refusal = bookie.refusal
                if refusal and not LASTING & self._faults.keys():
                    self._history.violate(f"{bookie.name} refuses to boot: {refusal}")
                    return
                if refusal:
                    self._history.note(f"a person helps {bookie.name}: {refusal}")
                    _empty_what_is_named(bookie, refusal)

    def _approve(self, bookie: SimBookie) -> None:
        """Older disks than expected are for a person to decide; nothing else here is."""
        if not (LASTING | OLDER) & self._faults.keys():
            self._history.violate(f"{bookie.name} waits for a person's approval")
        self._history.note(f"a person approves what {bookie.name} asks")
        bookie.approve()

    async def _end_drains(self, cluster: Cluster) -> None:
        """Whoever was to leave stays: there may be too few to close what it holds without it."""
        while leaving := [one for one in self._bookies if one.is_draining]:
            for bookie in leaving:
                await cluster.control.drain(BookieId(bookie.name), cancel=True)
            if self._is_over("drains cannot be ended", [one.name for one in leaving]):
                return
            await asyncio.sleep(0.5)

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
        except UnauthorizedError as error:
            self._history.violate(f"ledger {ledger_id}: who has its password is told {error}")
            return True
        except BookieError as error:
            if self._is_over(f"ledger {ledger_id} cannot be closed", error):
                return True
            if self._waited_s() > ACCEPT_S:
                await self._decide(cluster, ledger_id)
            return False
        self._history.opened(ledger_id, reader.last_entry_id)
        return True

    async def _decide(self, cluster: Cluster, ledger_id: LedgerId) -> None:
        """A person decides where the product leaves it to one: beyond the budget, and where a torn
        log makes a bookie doubt what it has. In that case nothing acknowledged may be lost."""
        if not self._plan.keeps_budget:
            self._shared.lossy.add(ledger_id)
            self._history.ledger(ledger_id).end_accepted = True
        elif not any(bookie.has_torn_log for bookie in self._bookies):
            return
        await self._accept(cluster, ledger_id)

    async def _accept(self, cluster: Cluster, ledger_id: LedgerId) -> None:
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
                self._replace_ledger_disks(bookie)

    def _replace_ledger_disks(self, bookie: SimBookie) -> None:
        self._history.note(f"a person replaces the ledger disks of {bookie.name}")
        _replace_disks(bookie, range(1, len(bookie.directories)))

    async def _write_again(self, store: MetadataStore) -> None:
        """A healed cluster takes entries, several at once, and acknowledges each."""
        scale, shared = self._plan.scale, self._shared
        if not scale.writes_again:
            return
        try:
            within_s = WRITE_S + scale.flush_s
            async with clients.client_of(shared, store) as client, asyncio.timeout(within_s):
                writer = await self._new_ledger(client)
                for number in range(scale.writes_again):
                    clients.append(shared, writer)
                    await asyncio.sleep(0.001 * (number % 3))
                await writer.wait_acked(EntryId(scale.writes_again - 1))
                self._history.opened(writer.ledger_id, await writer.close())
        except (BookieError, TimeoutError) as error:
            self._history.violate(f"a healed cluster does not take entries: {error!r}")

    async def _new_ledger(self, client: Client) -> LedgerWriter:
        """Create a ledger once enough bookies are registered again: lost sessions take a while."""
        scale = self._plan.scale
        while True:
            try:
                return await client.create_ledger(
                    ensemble_size=scale.ensemble,
                    write_quorum=scale.write_quorum,
                    ack_quorum=scale.ack_quorum,
                    password=PASSWORD,
                )
            except NotEnoughBookiesError as error:
                self._history.note(f"the judge cannot write: {error}")
                await asyncio.sleep(1.0)

    async def _until_unmarked(self) -> None:
        is_helped = self._plan.keeps_budget
        while marks := {b.name: b.marks for b in self._bookies if b.marks != 0}:
            states = {b.name: b.bookie.state.message for b in self._bookies if b.bookie}
            if self._is_over("bookies still have marks", f"{marks} {states}"):
                return
            if not is_helped and self._waited_s() > ACCEPT_S:
                is_helped = True
                self._give_up_corrupt_copies()
            await asyncio.sleep(0.25)

    def _give_up_corrupt_copies(self) -> None:
        """Beyond the budget the last copy of an entry may be a corrupt one: a bookie that forgot
        the entry is not cleared until a person gives that copy up."""
        for bookie in self._bookies:
            if bookie.is_up and bookie.name in self._shared.distrusted:
                self._replace_ledger_disks(bookie)

    async def _read_all(self, store: MetadataStore) -> None:
        async with clients.client_of(self._shared, store) as client:
            for ledger_id, known in list(self._history.ledgers.items()):
                if known.metadata is not None:
                    await self._read(client, ledger_id)

    async def _read(self, client: Client, ledger_id: LedgerId) -> None:
        reader = await client.open_ledger(ledger_id, password=PASSWORD)
        await self._read_beyond(reader)
        try:
            found = await clients.read_all(self._shared, reader)
        except DataLossError as error:
            expected = self._shared.losses_expected or ledger_id in self._shared.lossy
            self._history.lost(ledger_id, error.entry_id, expected=expected)
        except NoSuchEntryError as error:
            self._history.violate(
                f"ledger {ledger_id} is CLOSED, and reads as if it ended: {error}"
            )
        except BookieError as error:
            if self._plan.keeps_budget:
                self._history.violate(f"ledger {ledger_id} cannot be read at the end: {error}")
        else:
            self._history.check_readable(ledger_id, found)

    async def _read_beyond(self, reader: LedgerReader) -> None:
        """Check that reads beyond the end show nothing, even if bookies still have entries
        there."""
        beyond = EntryId(reader.last_entry_id + 1)
        try:
            found = await reader.read(beyond, EntryId(beyond + BEYOND))
        except NoSuchEntryError:
            return
        except BookieError as error:
            self._history.violate(
                f"ledger {reader.ledger_id}: who asks for {beyond}, beyond its end, is told {error}"
            )
            return
        for entry in found:
            self._history.read(reader.ledger_id, entry.entry_id, entry.payload)

    async def _ask_every_replica(self, cluster: Cluster) -> None:
        """Each gives what the metadata puts on it; a repair of everything has just been done."""
        for ledger_id, known in list(self._history.ledgers.items()):
            metadata = known.metadata
            if metadata is None or not metadata.is_closed:
                continue
            for bookie in self._bookies:
                share = await copies_missing(cluster.peers, metadata, BookieId(bookie.name))
                missing = [i for i in share.missing if i not in bookie.lost(ledger_id)]
                what = f"after a repair of everything {bookie.name} (answer: {share.status.name})"
                is_own = bookie.name in self._shared.distrusted and not self._plan.keeps_budget
                if share.wrong and not is_own:
                    self._history.violate(
                        f"{what} gives {share.wrong[0]} of ledger {ledger_id} that does not verify"
                    )
                if missing and self._plan.keeps_budget:
                    self._history.violate(
                        f"{what} has no copy of {missing[0]} of ledger {ledger_id} "
                        f"({len(missing)} such entries)"
                    )

    async def _judge_log(self, store: MetadataStore) -> None:
        """It gives back what its owners were promised, and takes another one."""
        if not self._plan.scale.logs:
            return
        async with clients.client_of(self._shared, store) as client:
            await self._read_log(client, store)
            await self._append_to_log(client, store)
            await self._read_log(client, store)

    async def _append_to_log(self, client: Client, store: MetadataStore) -> None:
        settings = clients.log_settings(self._plan.scale)
        while True:
            try:
                log = await clients.open_log(self._shared, client, store, settings)
                await clients.append_to_log(self._shared, log, "judge")
                await log.close()
                return
            except BookieError as error:
                self._history.note(f"the judge cannot open the log: {error}")
                if self._is_over("the log cannot be opened", error):
                    return
                await asyncio.sleep(1.0)

    async def _read_log(self, client: Client, store: MetadataStore) -> None:
        shared = self._shared
        if shared.losses_expected:
            return
        excused = shared.deleted | shared.lossy | shared.truncated

        def missing(ledger_id: LedgerId) -> None:
            if ledger_id not in excused:
                self._history.violate(f"the log lists ledger {ledger_id}, which does not exist")

        found: list[LogEntry] = []
        try:
            async for entry in read_log(
                LOG_NAME, ledgers=client, store=store, password=PASSWORD, on_missing=missing
            ):
                found.append(entry)
        except BookieError as error:
            self._history.violate(f"the log cannot be read to its end: {error}")
        for violation in log_violations(shared.log_appends, found, excused=excused):
            self._history.violate(violation)

    async def _repair_all(self, cluster: Cluster) -> None:
        """What recovery did not judge may lack a copy: a repair of all ledgers ends that too."""
        digests = DigestSettings() if LASTING & self._faults.keys() else None
        settings = replace(REPAIR, digests=digests)
        while self._plan.keeps_budget:
            request = RepairRequest(engine="inline", every_ledger=True, settings=settings)
            done = await repair(cluster, request)
            found = await audit(cluster, AuditRequest(digests=digests))
            counts: dict[str, Any] = found["audit"]
            self._history.note(f"audit: {counts}")
            if not (done["exit_code"] or counts["missing"] or counts["unknown"] or counts["lost"]):
                return
            why = f"exit {done['exit_code']}, {found['findings'][:2]}, {done['blocked'][:2]}"
            if self._is_over(f"after a repair of everything the audit finds {counts}", why):
                return
            await asyncio.sleep(2.0)


def _empty_what_is_named(bookie: SimBookie, refusal: str) -> None:
    named = [place for place, path in enumerate(bookie.directories) if str(path) in refusal]
    _replace_disks(bookie, named)


def _replace_disks(bookie: SimBookie, places: Iterable[int]) -> None:
    bookie.crash(lambda disk: disk.kill())
    for place in places:
        bookie.wipe(place)
    bookie.start()
