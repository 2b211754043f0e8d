"""BookieTask: a person asks for one operation on a cluster; the object keeps the outcome."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from bookie.errors import BadRequestError
from bookie.ids import LEDGER_ID_MAX
from bookie.ledger_selector import PATTERN, TEXT_MAX, parse_selector
from pydantic import (
    AwareDatetime,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from bookie_operator.model.base import (
    API_VERSION,
    LongText,
    Name,
    ObjectMeta,
    Resource,
    ShortText,
    rule,
    whole_milliseconds,
)


class TaskType(StrEnum):
    REPAIR = "repair"
    AUDIT = "audit"
    SCRUB = "scrub"
    REREPLICATE = "rereplicate"
    APPROVE_COOKIE_FIX = "approve-cookie-fix"
    APPROVE_COLLECTION = "approve-collection"
    REPLACE_DISK = "replace-disk"
    REPLACE_BOOKIE = "replace-bookie"
    INDEX_REBUILD = "index-rebuild"
    RESTART = "restart"
    ACCEPT_LOSS = "accept-loss"
    RETRACT_LOSS = "retract-loss"


TASK_TTL_SECONDS: Final = 7 * 86400
"""A week, in which the person can read the outcome."""
TASK_TTL_SECONDS_MAX: Final = 10 * 365 * 86400
DECOMMISSION: Final = "decommission"
"""A type that people try although it does not exist; it gets an error message of its own."""


class TaskPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        return self in (TaskPhase.SUCCEEDED, TaskPhase.FAILED)


AS_WRITTEN: Final = "(as written, not proved)"


def recorded_name(name: str, *, is_proved: bool) -> str:
    """A person's name for records; it says so if no admission policy proved the name."""
    return name if is_proved else f"{name} {AS_WRITTEN}"


_BOOKIELESS: Final = (
    TaskType.REPAIR,
    TaskType.AUDIT,
    TaskType.SCRUB,
    TaskType.REREPLICATE,
    TaskType.ACCEPT_LOSS,
    TaskType.RETRACT_LOSS,
)
"""Tasks of the whole cluster; a repair or a re-replication may name a bookie."""
DECISION_JOBS: Final = (TaskType.ACCEPT_LOSS, TaskType.RETRACT_LOSS)
"""Decisions that a job carries out; bookies accept them because of the job's certificate."""

_UNKNOWN_TO_0_1_0: Final = ("ledgers", "dry_run")
"""Fields of a task that release 0.1.0 does not know."""

BookieName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9:_.-]*$", max_length=253)]
"""Any bookie id of BookKeeper, since a re-replication may name a bookie such as `10.0.0.7:3181`."""
Selector = Annotated[str, StringConstraints(pattern=rf"^({PATTERN})?$", max_length=TEXT_MAX)]
"""Ledgers that one decision is about."""
Id = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
"""Id of a ledger or an entry. The schema has no upper bound: not every JSON reader keeps it
exact."""


class TaskSpec(Resource):
    """What to do, to which cluster and bookie."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule("self == oldSelf", "a task cannot change: create another one"),
                rule(
                    "self.type in "
                    "['repair', 'audit', 'scrub', 'rereplicate', 'accept-loss', "
                    "'retract-loss'] || "
                    "self.bookie != ''",
                    "bookie is needed by approve-cookie-fix, approve-collection, replace-disk, "
                    "replace-bookie, index-rebuild and restart",
                ),
                rule(
                    "self.type != 'approve-cookie-fix' || self.planId != ''",
                    "planId is needed: it names the fix that is approved",
                ),
                rule(
                    "self.type != 'approve-collection' || "
                    "self.planId != '' && self.approvedBy != ''",
                    "planId and approvedBy are needed: what is approved, and by whom",
                ),
                rule("self.type != 'replace-disk' || self.disk != ''", "disk is needed"),
                rule(
                    "!(self.type in ['accept-loss', 'retract-loss']) || "
                    "(has(self.ledger) || self.ledgers != '') && self.reason != '' && "
                    "self.approvedBy != ''",
                    "ledger or ledgers, reason and approvedBy are needed: they are kept with the "
                    "decision",
                ),
                rule(
                    "self.ledgers == '' && !self.dryRun || self.type == 'accept-loss'",
                    "ledgers and dryRun are of accept-loss",
                ),
                rule(
                    "self.ledgers == '' || !has(self.ledger) && !has(self.entry)",
                    "ledgers replaces ledger and entry: name an entry as LEDGER@ENTRY",
                ),
                rule(
                    "!self.dryRun || self.ledgers != ''",
                    "dryRun needs ledgers: an operator of release 0.1.0 would decide about ledger",
                ),
                rule(
                    "self.type != 'retract-loss' || !has(self.entry)",
                    "entry is of accept-loss: all that is recorded of the ledger is taken back",
                ),
            ]
        }
    )

    cluster: Name
    """Name of the BookieCluster, in the task's namespace."""
    type: TaskType
    """What to do: `repair`, `audit`, `scrub`, `rereplicate`, `approve-cookie-fix`,
    `approve-collection`, `replace-disk`, `replace-bookie`, `index-rebuild`, `restart`,
    `accept-loss` or `retract-loss`."""
    bookie: BookieName = ""
    """Id of the bookie, such as `bookie-1`. Needed by approve-cookie-fix, approve-collection,
    replace-disk, replace-bookie, index-rebuild and restart. Without it, repair covers every ledger,
    and rereplicate covers the ledgers that BookKeeper has marked as under-replicated."""
    disk: ShortText = ""
    """Name of the disk, as in `storage.disks`, for replace-disk and index-rebuild; index-rebuild
    without it covers all ledger disks."""
    plan_id: ShortText = ""
    """For approve-cookie-fix and approve-collection: id of the plan to approve, from
    `status.blocked` of the cluster."""
    approved_by: ShortText = ""
    """Name of the person who decides; needed by approve-collection, accept-loss and retract-loss.
    The bookies keep it."""
    ledger: Id | None = None
    """Id of the ledger: for accept-loss, one that no recovery can close; for retract-loss, one
    whose loss records are wrong."""
    entry: Id | None = None
    """For accept-loss: id of the entry that you expect to be undecided; the task fails if it is
    another one."""
    ledgers: Selector = ""
    """For accept-loss, instead of `ledger`: ids with commas between them, such as `4,40@7,9-12`.
    `40@7` expects entry 7 of ledger 40 to be undecided; `9-12` are those from 9 to 12 whose
    recovery was begun and could not end."""
    dry_run: bool = False
    """For accept-loss with `ledgers`: only show where each would be closed, and change nothing."""
    reason: ShortText = ""
    """Why the loss is accepted, or why the record is wrong; needed by accept-loss and retract-loss.
    The bookies keep it."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=TASK_TTL_SECONDS_MAX)] = (
        TASK_TTL_SECONDS
    )
    """The task is deleted this many seconds after its end, and when its cluster is deleted."""

    @field_validator("type", mode="before")
    @classmethod
    def _possible(cls, value: object) -> object:
        if value == DECOMMISSION:
            raise ValueError(
                "found 'decommission', which is no task: lower spec.replicas of the cluster, and "
                "the bookie with the highest number is drained and leaves, or name another one's "
                "number in spec.excludedOrdinals; expected one of "
                f"{', '.join(TaskType)}"
            )
        return value

    @field_validator("ledgers")
    @classmethod
    def _selects(cls, value: str) -> str:
        if value:
            try:
                parse_selector(value)
            except BadRequestError as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("ledger", "entry")
    @classmethod
    def _fits(cls, value: int | None) -> int | None:
        if value is not None and value > LEDGER_ID_MAX:
            raise ValueError(f"found {value}, expected at most {LEDGER_ID_MAX}")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type not in _BOOKIELESS and not self.bookie:
            raise ValueError(f"bookie: found nothing, expected the bookie to {self.type.value}")
        if self.type is TaskType.APPROVE_COOKIE_FIX and not self.plan_id:
            raise ValueError("planId: found nothing, expected the id of the pending fix (status)")
        if self.type is TaskType.APPROVE_COLLECTION:
            self._check_approval()
        if self.type is TaskType.REPLACE_DISK and not self.disk:
            raise ValueError("disk: found nothing, expected the name of a disk")
        if self.type in DECISION_JOBS:
            self._check_decision()
        if self.type is not TaskType.ACCEPT_LOSS and (self.ledgers or self.dry_run):
            raise ValueError("ledgers and dryRun: found one of them, expected it with accept-loss")
        return self

    def _check_approval(self) -> None:
        if not self.plan_id:
            raise ValueError("planId: found nothing, expected the id of the plan that waits")
        if not self.approved_by.strip():
            raise ValueError("approvedBy: found nothing, expected the person who decides")

    def _check_decision(self) -> None:
        # Release 0.1.0 passes over dryRun, and refuses a task that names no ledger.
        if self.dry_run and not self.ledgers:
            raise ValueError("dryRun: found it without ledgers, expected ledgers, not ledger")
        if self.ledger is None and not self.ledgers:
            raise ValueError("ledger: found nothing, expected the id of the ledger")
        if self.ledgers and (self.ledger is not None or self.entry is not None):
            raise ValueError(
                f"ledgers: found {self.ledgers} beside ledger or entry, expected it alone: name an "
                "entry as LEDGER@ENTRY"
            )
        if not self.reason.strip():
            is_back = self.type is TaskType.RETRACT_LOSS
            why = "the record is wrong" if is_back else "the loss is accepted"
            raise ValueError(f"reason: found nothing, expected why {why}")
        if self.type is TaskType.RETRACT_LOSS and self.entry is not None:
            raise ValueError(
                f"entry: found {self.entry}, expected nothing: all that is recorded as lost of the "
                "ledger is taken back"
            )
        if not self.approved_by.strip():
            raise ValueError("approvedBy: found nothing, expected the person who decides")

    def as_asked(self, *, without: Collection[str] = ()) -> str:
        """The text by which a job of this task is named, but for the fields `without`.

        Names of jobs outlive an upgrade: a field that release 0.1.0 does not know is in it only
        where somebody has set it.
        """
        unused = {name for name in _UNKNOWN_TO_0_1_0 if not getattr(self, name)}
        return self.model_dump_json(exclude={*without, *unused})


class TaskStatus(Resource):
    """How far the task is, and how it ended."""

    phase: TaskPhase = TaskPhase.PENDING
    """`Pending`, `Running`, `Succeeded` or `Failed`; the last two are final."""
    message: LongText = ""
    """How it ended and why, or how far its job is."""
    started_at: AwareDatetime | None = None
    """When the operator started it; absent before."""
    finished_at: AwareDatetime | None = None
    """When it ended; absent before."""
    target: ShortText = ""
    """What the task acts on: the name of its job, the uid of the volume that is replaced, or the
    beginnings of the uids of all such volumes."""

    def begun(self, target: str, *, at: datetime) -> Self:
        """The status of a running task. If it runs already, only the target may change."""
        if self.phase is TaskPhase.RUNNING:
            return self if self.target == target else self.model_copy(update={"target": target})
        started = whole_milliseconds(at)
        return self.model_copy(
            update={"phase": TaskPhase.RUNNING, "started_at": started, "target": target}
        )

    def ended(self, phase: TaskPhase, message: str, *, at: datetime) -> Self:
        update = {"phase": phase, "message": message[:1024], "finished_at": whole_milliseconds(at)}
        return self.model_copy(update=update)


class BookieTask(Resource):
    """One operation on a BookieCluster, which a person asks for."""

    api_version: Literal["bookkeeper.bookie-operator.dev/v1alpha1"] = API_VERSION
    """Version of this format."""
    kind: Literal["BookieTask"] = "BookieTask"
    """Always BookieTask."""
    metadata: ObjectMeta
    """Name, namespace and the rest of Kubernetes' object metadata."""
    spec: TaskSpec
    """What to do; it cannot change."""
    status: TaskStatus = TaskStatus()
    """How far it is; only the operator writes it."""
