"""Rows between Spark and the repair functions, and a cluster for code that may block.

Free of Spark, so that it is tested without one: columns in, columns out. The Spark side is
`sources` (tables) and `job` (work).
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from bookie.metadata.codec import decode_ledger, encode_ledger
from bookie.metadata.store import Versioned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.protocol.status import Status
from bookie.repair.audit import COUNT_NAMES, Look, counts_of
from bookie.repair.cluster import Cluster, open_cluster
from bookie.repair.expect import Holding, judge, known_lac, must_exist_through

Columns = dict[str, list[Any]]
Value = TypeVar("Value")

LEDGERS_DDL: Final = "ledger_id long not null, version long not null, metadata binary not null"
AVAILABILITY_DDL: Final = (
    "ledger_id long not null, bookie_id string not null, status int not null, "
    "entries binary not null, limbo boolean not null, unchecked boolean not null, "
    "lac long not null, lost binary not null"
)
HOLDING_COLUMNS: Final = (
    "bookie_id", "status", "entries", "limbo", "unchecked", "lac", "lost",
)  # fmt: skip


class BlockingCluster:
    """A cluster and an event loop of its own, for a Spark task: enter it, then `run` coroutines."""

    def __init__(self, metadata_url: str) -> None:
        self._runner = asyncio.Runner()
        self._opening = open_cluster(metadata_url)
        self._cluster: Cluster | None = None

    def __enter__(self) -> "BlockingCluster":
        try:
            self._cluster = self._runner.run(self._enter())
        except BaseException:
            self._runner.close()
            raise
        return self

    async def _enter(self) -> Cluster:
        return await self._opening.__aenter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async def leave() -> None:
            await self._opening.__aexit__(None, None, None)

        try:
            self._runner.run(leave())
        finally:
            self._runner.close()

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for one piece of work."""
        return self._runner.run(work)


def ledger_columns(found: Mapping[LedgerId, Versioned[LedgerMetadata]]) -> Columns:
    """Rows of `bookie_ledgers`; metadata in BookKeeper's own format."""
    return {
        "ledger_id": list(found),
        "version": [metadata.version for metadata in found.values()],
        "metadata": [encode_ledger(metadata.value) for metadata in found.values()],
    }


def availability_columns(looks: Iterable[Look]) -> Columns:
    """Rows of `bookie_availability`; blobs are canonical, however the bookie encoded them."""
    holdings = [holding for look in looks for holding in look.holdings.values()]
    return {
        "ledger_id": [holding.ledger_id for holding in holdings],
        "bookie_id": [holding.bookie_id for holding in holdings],
        "status": [int(holding.status) for holding in holdings],
        "entries": [holding.entries.encode() for holding in holdings],
        "limbo": [holding.limbo for holding in holdings],
        "unchecked": [holding.unchecked for holding in holdings],
        "lac": [holding.lac for holding in holdings],
        "lost": [holding.lost.encode() for holding in holdings],
    }


def holding_of(ledger_id: LedgerId, row: Mapping[str, Any]) -> Holding:
    """One row of `bookie_availability`."""
    return Holding(
        BookieId(row["bookie_id"]),
        ledger_id,
        Status(row["status"]),
        entries=EntrySet.decode(row["entries"]),
        limbo=row["limbo"],
        unchecked=row["unchecked"],
        lac=EntryId(row["lac"]),
        lost=EntrySet.decode(row["lost"]),
    )


def judged_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Verdicts on joined rows (ledger_id, metadata, holdings), as counts.

    `doubtful` ledgers are not wholly ok, or were closed at an accepted loss: someone has to look at
    them again, and their counts are not final.
    """
    columns: Columns = {name: [] for name in ("ledger_id", "doubtful", "marked", *COUNT_NAMES)}
    for row in rows:
        ledger_id = LedgerId(row["ledger_id"])
        metadata = decode_ledger(row["metadata"], ledger_id=ledger_id)
        holdings = [holding_of(ledger_id, one) for one in row["holdings"] or ()]
        verdict = judge(
            metadata,
            {holding.bookie_id: holding for holding in holdings},
            through=must_exist_through(metadata, lac=known_lac(holdings)),
        )
        columns["ledger_id"].append(ledger_id)
        columns["doubtful"].append(not verdict.is_ok or ACCEPTED_LOSS_KEY in metadata.custom)
        columns["marked"].append(any(holding.is_marked for holding in holdings))
        for name, count in zip(COUNT_NAMES, counts_of(verdict).row(), strict=True):
            columns[name].append(count)
    return columns


def tallied(judged: Columns) -> dict[str, Any]:
    """Verdicts as one row: the sums over ledgers that are wholly ok, and the ids of the others."""
    rows = zip(judged["doubtful"], judged["ledger_id"], strict=True)
    fine = [not doubtful for doubtful in judged["doubtful"]]
    sums = {
        name: sum(value for value, ok in zip(judged[name], fine, strict=True) if ok)
        for name in ("marked", *COUNT_NAMES)
    }
    return {"doubtful": [ledger_id for doubtful, ledger_id in rows if doubtful], **sums}
