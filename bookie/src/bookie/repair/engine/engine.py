"""What repairs, surveys and moves ledgers: this process or Spark."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from bookie.errors import BadRequestError
from bookie.repair.engine.choice import EngineChoice
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import BulkAudit, Scope
from bookie.repair.mend.ledger_move import Handover, MoveOutcome, Told
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask
from bookie.repair.reports.audit_progress import Looked
from bookie.repair.reports.printing import Say


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What an engine gives back: outcomes in the order of the tasks, and who worked on them."""

    outcomes: Sequence[LedgerOutcome]
    spark_app_id: str | None = None
    executors: tuple[str, ...] = ()


SparkAuditor = Callable[[str, Scope, Say, Looked], Awaitable[BulkAudit]]


Handed = TypeVar("Handed")


SparkRepair = Callable[[str, Sequence[LedgerTask], SameCluster, Say, Done], Awaitable[EngineRun]]


def handed_in(engine: Handed | None, choice: EngineChoice) -> Handed:
    """The engine's work; BadRequestError when the caller gave none."""
    if engine is None:
        raise BadRequestError(f"engine {choice.name} was chosen and not handed in")
    return engine


LEDGERS_PER_BATCH: Final = 200


LEDGERS_PER_ROUND: Final = 2_000
"""In Spark. Their locks are one session's, and ZooKeeper ends a session with one record that names
all it held, of at most 1 MiB.
"""


@dataclass(frozen=True, slots=True)
class EmptyingSettings:
    """`grace_s`: how long writers may take to move on by themselves before their ledgers are
    recovered. In process ledgers are moved `ledgers_per_batch` at a time, in Spark
    `ledgers_per_round`; between two of these the gate is asked.
    """

    grace_s: float = 3.0
    ledgers_per_batch: int = LEDGERS_PER_BATCH
    ledgers_per_round: int = LEDGERS_PER_ROUND
    repair: RepairSettings = field(default_factory=RepairSettings)


class MoveEngine(Protocol):
    """What carries ledgers: this process, or Spark. `ledgers_at_once`: of one round at most.
    `spark_app_id`, `executors`: as far as Spark has worked.
    """

    ledgers_at_once: int
    spark_app_id: str | None
    executors: frozenset[str]

    async def move(self, outcomes: Sequence[MoveOutcome], handover: Handover, told: Told) -> None:
        """One round: fills in what came of each; `told` once of each. UnavailableError: the
        metadata store is away.
        """

    async def mend(self, tasks: Sequence[LedgerTask], done: Done) -> Sequence[LedgerOutcome]:
        """Copies what members lack, as a repair does; outcomes in the order of the tasks."""
