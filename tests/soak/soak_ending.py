"""The end of a soak: every promise is read back, and the audit has the last word.

By now everybody is healed and no mark is left. Every ledger there is gets closed, also those whose
client was killed, and read from its first entry to its last. Copies that had never arrived (their
bookie was frozen, or away) are then made by a repair of everything, nothing may be missing, and
each single copy is read.
"""

import asyncio
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.errors import BookieError
from bookie.exit_codes import Exit
from bookie.ids import LedgerId
from bookie.repair.engine.choice import INLINE
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.cluster import Cluster
from promises import Promises
from soak_copies import check_copies
from soak_readers import read_back
from soak_report import Tally

LEDGERS_AT_ONCE: Final = 4
REPAIRS_MAX: Final = 3
"""Bookies find late marks only now and then; a repair while one does leaves them to the next."""
BAD_CLASSES: Final = ("lost", "no_copy", "below_ack_quorum", "unknown")
"""What an audit must not find even before the last repair: one more crash could lose these."""


class JobOutput:
    """Holds a cluster to what it has promised."""

    def __init__(self, cluster: Cluster, promises: Promises, tally: Tally) -> None:
        self._cluster = cluster
        self._promises = promises
        self._tally = tally
        self._slots = asyncio.Semaphore(LEDGERS_AT_ONCE)

    async def judge(self) -> None:
        """All of it; what is found goes into the findings of the promises."""
        await self._read_all()
        await self._audit()
        await self._check_copies()

    async def _read_all(self) -> None:
        found = [ledger_id async for ledger_id in self._cluster.store.ledger_ids()]
        kept = {i for i, promise in self._promises.ledgers.items() if not promise.doomed}
        for ledger_id in sorted(kept - set(found)):
            self._promises.note_missing(ledger_id, 0, "nothing of the ledger is left in metadata")
        async with Client(self._cluster.store) as client:
            await asyncio.gather(*(self._read(client, ledger_id) for ledger_id in found))

    async def _read(self, client: Client, ledger_id: LedgerId) -> None:
        async with self._slots:
            try:
                reader = await client.recover_ledger(ledger_id)
                self._promises.note_end(ledger_id, reader.last_entry_id)
                await read_back(self._promises, reader, first=0, last=reader.last_entry_id)
            except BookieError as error:
                self._promises.findings.add_failed(f"ledger {ledger_id} at the end: {error!r}")
            self._tally.ledgers_read += 1

    async def _check_copies(self) -> None:
        store = self._cluster.store
        async for ledger_id in store.ledger_ids():
            metadata = (await store.read_ledger(ledger_id)).value
            self._tally.copies += await check_copies(self._promises, self._cluster.peers, metadata)

    async def _audit(self) -> None:
        findings = self._promises.findings
        before = await audit(self._cluster, AuditRequest(engine=INLINE))
        self._tally.audit_before = before["audit"]
        for name in BAD_CLASSES:
            if entries := before["audit"][name]:
                findings.add_failed(
                    f"{entries} entries are {name} though every mark was cleared: "
                    f"{before['findings'][:3]}"
                )
        await self._repair_all()
        after = await audit(self._cluster, AuditRequest(engine=INLINE))
        self._tally.audit = after["audit"]
        if after["exit_code"] != Exit.OK:
            findings.add_failed(f"the audit at the end: {after['audit']}: {after['findings'][:3]}")

    async def _repair_all(self) -> None:
        """Every ledger, until no bookie holds a mark any more."""
        for _ in range(REPAIRS_MAX):
            request = RepairRequest(every_ledger=True, engine=INLINE)
            document = await repair(self._cluster, request)
            if document["exit_code"] == Exit.OK:
                return
        self._promises.findings.add_failed(
            f"{REPAIRS_MAX} repairs of everything did not end clean: {document['blocked'][:3]}, "
            f"{document['audit_after']}"
        )
