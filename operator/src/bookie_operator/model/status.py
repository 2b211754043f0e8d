"""Status of a BookieCluster: what the planner concluded, for people and machines.

Written by the planner alone, read by it again on the next pass (previous status): all memory the
operator has. Times are UTC. Counts that change with every add stay out, so that a quiet cluster's
status does not change either.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from bookie_operator.model.base import LongText, Resource, ShortText, StatusPart
from bookie_operator.model.left_over import LEFT_OVER_MAX, LeftOverStatus

BOOKIES_MAX: Final = 100
BLOCKED_MAX: Final = 200
INCIDENTS_MAX: Final = 50
"""Older closed incidents are dropped; open ones never."""

CLASSES_MAX: Final = 32
LAST_COPY: Final = "LastCopy"
"""Predicate, and reason of the loss budget: a last known copy might go."""
HOLDERS_MAX: Final = 64
"""Groups of bookies that hold last copies."""
MEMBERS_MAX: Final = 100
LEDGERS_MAX: Final = 16
"""Ledgers that a group or a quorum names."""
CLASS_PATTERN: Final = r"[a-z][a-z_]{0,39}"
"""Names of an audit's classes of findings."""

Count = Annotated[int, Field(ge=0)]


def whole_milliseconds(moment: datetime) -> datetime:
    """The moment as status stores it: UTC, cut to milliseconds."""
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class ConditionType(StrEnum):
    READY = "Ready"
    """Every wanted bookie serves with the settings that it is to have: kstatus, Helm, Flux and
    Argo CD wait for it."""
    STALLED = "Stalled"
    """Waiting does not help: a person has to act, and kstatus calls it failed."""
    AVAILABLE = "Available"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    LIMBO_PRESENT = "LimboPresent"
    COOKIE_FIX_PENDING = "CookieFixPending"
    REPAIR_RUNNING = "RepairRunning"
    REPAIR_STALLED = "RepairStalled"
    POSSIBLE_DATA_LOSS = "PossibleDataLoss"
    DURABILITY_VERIFIED = "DurabilityVerified"
    SCALE_DOWN_BLOCKED = "ScaleDownBlocked"
    MIXED_DURABILITY = "MixedDurability"
    METADATA_ROLLED_BACK = "MetadataRolledBack"
    COLLECTION_HELD = "CollectionHeld"
    SPACE_LOW = "SpaceLow"
    PAUSED = "Paused"


class Condition(Resource):
    """One metav1.Condition."""

    type: ShortText
    status: Literal["True", "False", "Unknown"]
    reason: ShortText
    message: LongText = ""
    observed_generation: Count = 0
    last_transition_time: AwareDatetime


class BookieState(StrEnum):
    PENDING = "Pending"
    """No process yet."""
    STARTING = "Starting"
    """Its control plane does not answer yet; or another process is to come, since the last one was
    asked to stop or its pod is away, for a minute at most."""
    BOOTING = "Booting"
    MARKING = "Marking"
    AWAITING_APPROVAL = "AwaitingApproval"
    SERVING = "Serving"
    LIMBO = "Limbo"
    """Serving, and some of what it does not hold is unknown."""
    READ_ONLY = "ReadOnly"
    DRAINING = "Draining"
    """Serving what it has while its ledgers move away; it is to leave."""
    LEAVING = "Leaving"
    """Drained, and being removed: nothing is on it."""
    STOPPING = "Stopping"
    REFUSED = "Refused"
    UNRESPONSIVE = "Unresponsive"
    CRASH_LOOP = "CrashLoop"
    """Ends again and again before its control plane answers."""
    DOWN = "Down"


class LastShutdown(StatusPart):
    """How the boot before this one ended, as the bookie found it on its disks."""

    clean: bool
    reason: ShortText = ""


class DiskStatus(StatusPart):
    name: ShortText
    role: ShortText
    volume_uid: ShortText = ""
    """The volume that the bookie's last known boot found there."""
    disk_id: ShortText = ""
    verdict: ShortText = ""
    """As the bookie judged it at boot: ok, new, empty, stale, foreign, swapped, torn."""
    total_bytes: Count = 0


class EngineUse(StatusPart):
    """Which engine did the work, why that one, and the Spark application where it was Spark."""

    engine: ShortText = ""
    engine_reason: LongText = ""
    spark_app_id: ShortText = ""
    executors: Count = 0


class RepairState(StrEnum):
    WAITING = "Waiting"
    """Needed, and no attempt has begun."""
    RUNNING = "Running"
    FINISHED = "Finished"
    """The bookie says that no mark is left: the only end that counts."""
    FAILED = "Failed"
    """An attempt has ended, and marks are left."""


class RepairStatus(EngineUse):
    """The repair of one episode: a bookie and the boot that needs it."""

    episode: ShortText
    state: RepairState
    attempt: Count = 0
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    next_attempt_at: AwareDatetime | None = None
    ledgers_total: Count = 0
    """Marked at most since this boot, by the bookie's own count."""
    ledgers_cleared: Count = 0
    progress: ShortText = ""
    """`37/120 ledgers (30 %)`"""
    message: LongText = ""


class EndStatus(StatusPart):
    """How a process of a bookie ended, as the platform saw it."""

    at: AwareDatetime
    code: int | None = None
    """Negative for a signal; absent when nobody could collect it."""
    reason: ShortText = ""
    pod: ShortText = ""


class BookieStatus(StatusPart):
    id: ShortText
    state: BookieState
    state_since: AwareDatetime | None = None
    message: LongText = ""
    boot_epoch: Count = 0
    last_shutdown: LastShutdown | None = None
    mode: ShortText = ""
    limbo_ledgers: Count = 0
    unchecked_ledgers: Count = 0
    losses_recorded: Count = 0
    restarts: Count = 0
    failures: Count = 0
    """Ends in a row: no steady run between them, and none of them planned."""
    last_end: EndStatus | None = None
    first_kill: EndStatus | None = None
    """The first that was seen since the boot above: what came after it explains nothing."""
    instance: ShortText = ""
    """Which process or container: compared as a whole, never counted."""
    revision: ShortText = ""
    """The settings that this process runs with, as a hash; each bookie has its own."""
    is_updated: bool | None = None
    """It runs with the settings that the spec asks for; absent without a process."""
    version: ShortText = ""
    """Of the program, by the bookie's own word."""
    control: ShortText = ""
    """host:port of the control plane."""
    silent_since: AwareDatetime | None = None
    """Since when this process has not answered; absent while it does."""
    hung_restarts: Count = 0
    """Restarts in a row that brought no answer."""
    pod: ShortText = ""
    """Pod, node and the node's boot of the boot whose record is known."""
    node: ShortText = ""
    node_boot_id: ShortText = ""
    rack: ShortText = ""
    """From a label of its node (`spec.rackTopologyKey`); empty = not known."""
    disks: Annotated[
        tuple[DiskStatus, ...],
        Field(
            max_length=32,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    repair: RepairStatus | None = None
    fix_held: LongText = ""
    """Why only a person decides on its changed disks: once so, until it has booted."""


class IncidentOutcome(StrEnum):
    OPEN = "Open"
    CLEARED = "Cleared"
    SUPERSEDED = "Superseded"
    """The bookie stopped uncleanly again; a later incident took over what was left."""


class Incident(EngineUse):
    """An episode from its detection to the day limbo was 0 again."""

    kind: ShortText
    """UncleanShutdown, DiskReplaced, DiskWiped, DiskStale, TornLog, MarkingInterrupted, ..."""
    bookie: ShortText
    boot_epoch_before: Count = 0
    boot_epoch_after: Count = 0
    cause: ShortText = ""
    """What the platform saw: OOMKilled, Signal, ExitCode, PodReplaced, NodeRestarted, NodeChanged;
    empty = nothing. The bookie is believed in any case."""
    cause_message: LongText = ""
    outcome: IncidentOutcome = IncidentOutcome.OPEN
    ledgers_fenced: Count = 0
    ledgers_in_limbo: Count = 0
    ledgers_unchecked: Count = 0
    stopped_at: AwareDatetime | None = None
    """When the process ended, if the platform saw it."""
    detected_at: AwareDatetime
    cleared_at: AwareDatetime | None = None
    seconds_to_detect: float | None = None
    """From the stop (else from the start of the boot that found it) to the detection."""
    seconds_to_clear: float | None = None
    entries_recovered: Count = 0
    """Written back by recoveries, before the ledgers were closed."""
    entries_copied: Count = 0
    """Copied to bookies that lacked them, after their ledgers were closed."""
    entries_copied_closed: Count = 0
    """Of those, entries of ledgers that were CLOSED before the repair."""
    ledgers_recovered: Count = 0
    attempts: Count = 0
    counted_jobs: Annotated[tuple[ShortText, ...], Field(max_length=100)] = ()
    """Repair jobs whose copies are in the sums above."""


class LimboTotals(StatusPart):
    ledgers: Count = 0
    unchecked: Count = 0
    bookies: Annotated[tuple[ShortText, ...], Field(max_length=BOOKIES_MAX)] = ()
    oldest_since: AwareDatetime | None = None
    cleared_total: Count = 0


class ClassCounts(StatusPart):
    """One class of an audit's findings."""

    findings: Count = 0
    """Ledgers, or bookies where the class is about bookies."""
    entries: Count = 0


ClassName = Annotated[str, StringConstraints(pattern=rf"^{CLASS_PATTERN}$")]


class AttemptStatus(StatusPart):
    """Numbered attempts of one kind of job: the last finished, and what runs or failed since."""

    running: bool = False
    attempt: Count = 0
    """Started so far: names the next one's job."""
    failures: Count = 0
    """Failed in a row."""
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    next_at: AwareDatetime | None = None
    """Not before then is a failed one tried again."""
    clean: bool | None = None
    """Nothing is found, or left, by the last finished one."""
    message: LongText = ""
    progress: ShortText = ""
    """How far the one that runs is, by its own word."""


class Holders(StatusPart):
    """Entries with too few known copies that the same bookies hold."""

    known: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that have a good copy."""
    perhaps: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that may have one, and could not say so."""
    entries: Count = 0
    ledgers: Count = 0
    first_ledgers: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()


class LastCopies(StatusPart):
    """Who holds what is left of entries with too few copies."""

    entries: Count = 0
    groups: Count = 0
    entries_left_out: Count = 0
    """Of which nobody kept who holds them."""
    held_by: Annotated[tuple[Holders, ...], Field(max_length=HOLDERS_MAX)] = ()

    @property
    def is_complete(self) -> bool:
        """Bookies that are not named hold no last copy."""
        return len(self.held_by) == self.groups and not self.entries_left_out


class QuorumsStatus(StatusPart):
    """The ledgers' own quorums."""

    ack_asked: Count | None = None
    """The ack quorum that the audit was asked for."""
    ack_lowest: Count | None = None
    copies_lowest: Count | None = None
    """The least number of copies of an entry that are certain: the ack quorum of a ledger that is
    written, the write quorum of a closed one. Absent without ledgers."""
    ledgers_lowest: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()
    """The first ledgers with so few."""


class AuditStatus(AttemptStatus, EngineUse):
    """The last finished audit, and the attempt that runs or failed since."""

    asked_at: AwareDatetime | None = None
    """When the operator last saw something that only an audit can settle."""
    ledgers: Count = 0
    entries: Count = 0
    ok: Count = 0
    missing: Count = 0
    unknown: Count = 0
    below_write_quorum: Count = 0
    below_ack_quorum: Count = 0
    no_copy: Count = 0
    lost: Count = 0
    accepted_losses: Count = 0
    classes: Annotated[dict[ClassName, ClassCounts], Field(max_length=CLASSES_MAX)] = Field(
        default_factory=dict
    )
    """Every class that the engine knows, also those without findings."""
    quorums: QuorumsStatus | None = None
    """Absent: the engine did not say."""
    last_copies: LastCopies | None = None
    """Absent: the engine did not say, so that with findings every bookie may hold one."""


class ScrubStatus(AttemptStatus):
    """The last finished scrub, and the attempt that runs or failed since."""

    scheduled_at: AwareDatetime | None = None
    """Since when there is a schedule; absent without one."""
    ledgers: Count = 0
    entries: Count = 0
    corrupt_found: Count = 0
    corrupt_replaced: Count = 0
    blocked: Count = 0
    """Ledgers of which not all could be verified or replaced."""
    last_copies: LastCopies | None = None
    """As of an audit, after what could be replaced was."""


class MendStatus(AttemptStatus, EngineUse):
    """The last finished repair of what an audit had found, and the attempt that runs or failed."""

    rounds: Count = 0
    """Finished since the last clean audit; the next one waits the longer."""
    ledgers: Count = 0
    """That it looked after: all there were."""
    blocked: Count = 0
    """Ledgers that it could not mend."""
    entries_copied: Count = 0
    corrupt_replaced: Count = 0


class RereplicationStatus(AttemptStatus, EngineUse):
    """The last finished re-replication, and the attempt that runs or failed since."""

    bookie: ShortText = ""
    """Gone for good, by a task's word; empty = only what marks name."""
    ledgers_moved: Count = 0
    ledgers_left: Count = 0
    """Ledgers that still name that bookie."""
    blocked: Count = 0
    marks_found: Count = 0
    marks_cleared: Count = 0
    entries_copied: Count = 0


class DrainPhase(StrEnum):
    HELD = "Held"
    """Wanted, and refused for the time being: status.blocked says why."""
    DRAINING = "Draining"
    EMPTIED = "Emptied"
    """The bookie says that no ledger names it; it is asked once more before it goes."""
    REMOVING = "Removing"


class DrainStatus(EngineUse):
    """The bookie that leaves next, since fewer are wanted; absent when none is to leave."""

    bookie: ShortText
    phase: DrainPhase
    started_at: AwareDatetime
    ledgers_left: Count | None = None
    """Ledgers that name it, by its own count; absent = not counted."""
    is_running: bool = False
    """A job moves its ledgers now."""
    progress: ShortText = ""
    """How far that job is, by its own word."""
    attempt: Count = 0
    failures: Count = 0
    """Jobs in a row that moved nothing."""
    next_attempt_at: AwareDatetime | None = None
    instance: ShortText = ""
    """The process that said it is empty, and is being removed; empty = it never ran."""
    ledgers_moved: Count = 0
    entries_copied: Count = 0
    message: LongText = ""

    @property
    def is_removing(self) -> bool:
        return self.phase is DrainPhase.REMOVING


class Blocked(StatusPart):
    """An action that is wanted and refused, and the predicate that refused it."""

    bookie: ShortText = ""
    action: ShortText
    predicate: ShortText
    since: AwareDatetime
    message: LongText = ""


class LossBudgetStatus(StatusPart):
    """How many bookies may be out at once with no acknowledged entry at risk, and why so many."""

    limit: Count = 0
    reason: ShortText = ""
    """AckQuorum, NotAudited, OlderAudit, LowerQuorum, SingleCopy or LastCopy."""
    message: LongText = ""
    last_copies_on: Annotated[tuple[ShortText, ...], Field(max_length=BOOKIES_MAX)] = ()
    """Bookies that may hold the last known copy of an entry: nothing takes them away."""


class MetadataStatus(StatusPart):
    url: LongText = ""
    reachable: bool = False
    instance_id: ShortText = ""


def _by_keys(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class ClusterStatus(StatusPart):
    untouched = frozenset({"mend", "scrub", "rereplication"})

    observed_generation: Count = 0
    generation_since: AwareDatetime | None = None
    """When this generation of the spec was first looked at: what failed before is tried again."""
    phase: ShortText = "Pending"
    """One word for people; machines read the conditions."""
    replicas: Count = 0
    ready_replicas: Count = 0
    updated_replicas: Count = 0
    """Wanted bookies that run with the settings that the spec asks for."""
    selector: LongText = ""
    disruptions_allowed: Count = 0
    """What the PodDisruptionBudget grants: 0 while limbo exists, or a last copy might go."""
    loss_budget: LossBudgetStatus | None = None
    metadata: MetadataStatus = MetadataStatus()
    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=32, json_schema_extra=_by_keys("type"))
    ] = ()
    bookies: Annotated[
        tuple[BookieStatus, ...], Field(max_length=BOOKIES_MAX, json_schema_extra=_by_keys("id"))
    ] = ()
    limbo: LimboTotals = LimboTotals()
    audit: AuditStatus = AuditStatus()
    mend: MendStatus = MendStatus()
    scrub: ScrubStatus = ScrubStatus()
    rereplication: RereplicationStatus = RereplicationStatus()
    drain: DrainStatus | None = None
    left_over: Annotated[
        tuple[LeftOverStatus, ...],
        Field(max_length=LEFT_OVER_MAX, json_schema_extra=_by_keys("bookie")),
    ] = ()
    blocked: Annotated[tuple[Blocked, ...], Field(max_length=BLOCKED_MAX)] = ()
    incidents: Annotated[tuple[Incident, ...], Field(max_length=200)] = ()

    def condition(self, kind: ConditionType) -> Condition | None:
        return next((c for c in self.conditions if c.type == kind.value), None)

    @property
    def has_running_job(self) -> bool:
        """Of the cluster's own; repairs have a phase of their own."""
        is_draining = self.drain is not None and self.drain.is_running
        return is_draining or any(
            one.running for one in (self.audit, self.mend, self.scrub, self.rereplication)
        )

    def is_true(self, kind: ConditionType) -> bool:
        found = self.condition(kind)
        return found is not None and found.status == "True"

    def bookie(self, bookie_id: str) -> BookieStatus | None:
        return next((b for b in self.bookies if b.id == bookie_id), None)
