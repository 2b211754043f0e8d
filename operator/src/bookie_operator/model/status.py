"""Status of a BookieCluster: what the planner concluded, for people and programs.

Only the planner writes it, and reads it again on the next pass: the operator has no other memory.
Times are UTC. Counts that change with every add are left out, so that the status of a healthy
cluster does not change all the time.
"""

from typing import Annotated, Any, Final

from pydantic import AwareDatetime, Field

from bookie_operator.model.audit_status import AuditStatus, MendStatus, ScrubStatus
from bookie_operator.model.base import Count, LongText, ShortText, StatusPart
from bookie_operator.model.bookie_status import BOOKIES_MAX, BookieStatus, LimboTotals
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.drain_status import DrainStatus, RereplicationStatus
from bookie_operator.model.incidents import Incident
from bookie_operator.model.left_over import LEFT_OVER_MAX, LeftOverStatus
from bookie_operator.model.tls import TlsStatus

BLOCKED_MAX: Final = 200
COLLECT: Final = "Collect"
"""Action in `blocked`: a bookie waits for approval to remove entries of deleted ledgers."""
LAST_COPY: Final = "LastCopy"
"""Predicate, and reason of the loss budget: the last known copy of an entry might be lost."""
NOT_REREPLICATED: Final = "NotRereplicated"
"""Predicate: a bookie that is to leave is away, and other bookies do not hold its entries yet."""


class Blocked(StatusPart):
    """An action that the operator wants but must not do now, and the predicate that refuses it."""

    bookie: ShortText = ""
    """Id of the bookie that it is about; empty = the whole cluster."""
    action: ShortText
    """The wanted action: Restart, ReplaceDisk, CookieFix, Repair, ScaleDown and so on."""
    predicate: ShortText
    """What refuses it, in one word, such as LossBudgetExceeded or LimboPresent."""
    since: AwareDatetime
    """Since when this predicate refuses it."""
    message: LongText = ""
    """Why, in a sentence; if the API server refused, its own message."""


class LossBudgetStatus(StatusPart):
    """How many bookies may be out at the same time without risk for any acknowledged entry, and
    why."""

    limit: Count = 0
    """Number of bookies that may be out, or lose all their entries, at the same time."""
    reason: ShortText = ""
    """AckQuorum, NotAudited, OlderAudit, LowerQuorum, SingleCopy or LastCopy."""
    message: LongText = ""
    """Why the limit has this value, in a sentence."""
    last_copies_on: Annotated[tuple[ShortText, ...], Field(max_length=BOOKIES_MAX)] = ()
    """Bookies that may hold the last known copy of an entry: the operator does not stop them."""


class MetadataStatus(StatusPart):
    """The metadata store, as the last look found it."""

    url: LongText = ""
    """Its address, such as `zk://host:port/ledgers`."""
    reachable: bool = False
    """Whether it answered when the operator last looked."""
    instance_id: ShortText = ""
    """Id that the cluster has in it, which never changes; empty = not initialised yet."""


def _by_keys(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class ClusterStatus(StatusPart):
    """The state of the cluster when the operator last looked."""

    untouched = frozenset({"mend", "scrub", "rereplication"})

    observed_generation: Count = 0
    """Generation of the spec that this status is about."""
    generation_since: AwareDatetime | None = None
    """When the operator first saw this generation of the spec; it then retries what failed
    before."""
    looked_at: AwareDatetime | None = None
    """When the operator looked last, at most five minutes late. If this is longer ago than ten
    minutes, no operator keeps the status current, and nothing else here need be true any more."""
    phase: ShortText = "Pending"
    """The state in one word for people; programs should read the conditions."""
    replicas: Count = 0
    """Number of bookies that run, or are about to run again."""
    ready_replicas: Count = 0
    """Number of bookies that serve, including those in limbo, read-only and draining."""
    updated_replicas: Count = 0
    """Number of wanted bookies that run with the settings of the spec."""
    selector: LongText = ""
    """Label selector of the bookies' pods, for the scale subresource."""
    disruptions_allowed: Count = 0
    """How many evictions the PodDisruptionBudget allows: 0 while a ledger is in limbo or a last
    copy is at risk."""
    loss_budget: LossBudgetStatus | None = None
    """How many bookies may be out at the same time, and why; absent before the first look."""
    metadata: MetadataStatus = MetadataStatus()
    """The metadata store."""
    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=32, json_schema_extra=_by_keys("type"))
    ] = ()
    """The conditions, one for each type."""
    bookies: Annotated[
        tuple[BookieStatus, ...], Field(max_length=BOOKIES_MAX, json_schema_extra=_by_keys("id"))
    ] = ()
    """Every bookie that is wanted, was known before or exists, by number."""
    limbo: LimboTotals = LimboTotals()
    """Limbo of all bookies together."""
    audit: AuditStatus = AuditStatus()
    """The last audit."""
    mend: MendStatus = MendStatus()
    """The last repair of what an audit found; absent before the first."""
    scrub: ScrubStatus = ScrubStatus()
    """The last scrub; absent before the first."""
    rereplication: RereplicationStatus = RereplicationStatus()
    """The last re-replication; absent before the first."""
    drain: DrainStatus | None = None
    """The bookie that leaves; absent when none does."""
    tls: TlsStatus | None = None
    """Certificates, and changes of the authority or of the mode; absent without TLS."""
    left_over: Annotated[
        tuple[LeftOverStatus, ...],
        Field(max_length=LEFT_OVER_MAX, json_schema_extra=_by_keys("bookie")),
    ] = ()
    """Bookies that have left but still have a cookie or volumes."""
    blocked: Annotated[tuple[Blocked, ...], Field(max_length=BLOCKED_MAX)] = ()
    """Actions that the operator wants but must not do now, and what refuses each."""
    incidents: Annotated[tuple[Incident, ...], Field(max_length=200)] = ()
    """Unclean stops and changed disks, oldest first; the last 50 closed ones are kept."""

    def condition(self, kind: ConditionType) -> Condition | None:
        return next((c for c in self.conditions if c.type == kind.value), None)

    @property
    def has_running_job(self) -> bool:
        """Whether an audit, mend, scrub, re-replication or drain runs. Repairs of a bookie do not
        count."""
        is_draining = self.drain is not None and self.drain.is_running
        return is_draining or any(
            one.running for one in (self.audit, self.mend, self.scrub, self.rereplication)
        )

    def is_true(self, kind: ConditionType) -> bool:
        found = self.condition(kind)
        return found is not None and found.status == "True"

    def bookie(self, bookie_id: str) -> BookieStatus | None:
        return next((b for b in self.bookies if b.id == bookie_id), None)
