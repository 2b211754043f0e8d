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
from bookie_operator.model.tls import TlsStatus

BOOKIES_MAX: Final = 100
BLOCKED_MAX: Final = 200
INCIDENTS_MAX: Final = 50
"""Older closed incidents are dropped; open ones never."""

CLASSES_MAX: Final = 32
COLLECT: Final = "Collect"
"""Action in `blocked`: entries of deleted ledgers are to go, and wait for a person."""
LAST_COPY: Final = "LastCopy"
"""Predicate, and reason of the loss budget: a last known copy might go."""
NOT_REREPLICATED: Final = "NotRereplicated"
"""Predicate: a bookie that is to leave is away, and others do not hold yet what it held."""
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
    CERTIFICATES_VALID = "CertificatesValid"
    """Every certificate can be used, and will be for a while; absent while nobody has any."""
    TLS_IN_FORCE = "TlsInForce"
    """Every bookie takes what the spec says; absent while that is, and was, plain."""
    SECRETS_USABLE = "SecretsUsable"
    """What the spec names of people's Secrets can be used; absent where it names none."""
    PAUSED = "Paused"


class Condition(Resource):
    """One metav1.Condition."""

    type: ShortText
    """Name of the condition, such as Ready or LimboPresent; docs/operating.md lists all."""
    status: Literal["True", "False", "Unknown"]
    """`True`, `False`, or `Unknown` where nothing may be concluded."""
    reason: ShortText
    """One word for why, which programs may read."""
    message: LongText = ""
    """The same as a sentence, for people."""
    observed_generation: Count = 0
    """Generation of the spec that it is about."""
    last_transition_time: AwareDatetime
    """When its status changed last."""


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
    """True: everything was flushed before the process ended."""
    reason: ShortText = ""
    """CleanStop, FirstBoot, or why it was unclean, such as UncleanShutdown or DiskReplaced."""


class DiskStatus(StatusPart):
    """One disk of a bookie, as its last known boot found it."""

    name: ShortText
    """Name of the disk in `storage.disks`."""
    role: ShortText
    """`journal` or `ledger`."""
    volume_uid: ShortText = ""
    """The volume that the bookie's last known boot found there."""
    disk_id: ShortText = ""
    """The random id that the bookie stamped on it; empty = not known."""
    verdict: ShortText = ""
    """As the bookie judged it at boot: ok, new, empty, stale, foreign, swapped, torn."""
    total_bytes: Count = 0
    """Size of its file system in bytes; 0 = not known."""


class EngineUse(StatusPart):
    """Which engine did the work, why that one, and the Spark application where it was Spark."""

    engine: ShortText = ""
    """`inline`, `spark-local` or `spark-kubernetes`; empty = not said yet."""
    engine_reason: LongText = ""
    """Why this engine, in words."""
    spark_app_id: ShortText = ""
    """Id of the Spark application; empty without Spark."""
    executors: Count = 0
    """Executors that Spark had; 0 without any."""


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
    """Bookie and boot epoch, `bookie-1-7`: another unclean boot begins another episode."""
    state: RepairState
    """`Waiting`, `Running`, `Finished` (the bookie has no mark left) or `Failed` (an attempt ended,
    and marks are left)."""
    attempt: Count = 0
    """Number of the last attempt; 0 = none has begun."""
    started_at: AwareDatetime | None = None
    """When the last attempt began; absent before the first."""
    ended_at: AwareDatetime | None = None
    """When the last attempt ended; absent while one runs."""
    next_attempt_at: AwareDatetime | None = None
    """Not before then is a failed attempt repeated."""
    ledgers_total: Count = 0
    """Marked at most since this boot, by the bookie's own count."""
    ledgers_cleared: Count = 0
    """Of `ledgersTotal`, those without marks by now."""
    progress: ShortText = ""
    """`ledgersCleared` of `ledgersTotal` as people read it, such as `37/120 ledgers (30 %)`."""
    message: LongText = ""
    """What the last attempt said at its end, or why none runs."""


class EndStatus(StatusPart):
    """How a process of a bookie ended, as the platform saw it."""

    at: AwareDatetime
    """When the process ended."""
    code: int | None = None
    """Negative for a signal; absent when nobody could collect it."""
    reason: ShortText = ""
    """OOMKilled, a signal, an exit code, in words."""
    pod: ShortText = ""
    """Identity of the pod that it was in; empty on the local platform."""


class BookieStatus(StatusPart):
    """One bookie: what it says of itself, and what the platform knows of its process."""

    id: ShortText
    """Id of the bookie, `bookie-0` and so on."""
    state: BookieState
    """One word: Pending, Starting, Booting, Marking, AwaitingApproval, Serving, Limbo, ReadOnly,
    Draining, Leaving, Stopping, Refused, Unresponsive, CrashLoop or Down; docs/operating.md says
    what each means."""
    state_since: AwareDatetime | None = None
    """Since when it is in this state."""
    message: LongText = ""
    """What is the matter, in the bookie's or the platform's words; empty when nothing is."""
    boot_epoch: Count = 0
    """Number of its last known boot; 0 = it never booted."""
    last_shutdown: LastShutdown | None = None
    """How the process before this boot ended; absent before the first boot."""
    mode: ShortText = ""
    """`journal`, `memory` or `sync`: when adds are acknowledged, by its last known boot; empty =
    not known."""
    limbo_ledgers: Count = 0
    """Ledgers of which it may have forgotten entries. Kept from before while it is silent."""
    unchecked_ledgers: Count = 0
    """Ledgers that were closed or stood elsewhere when it crashed, and whose copies are not
    verified yet."""
    losses_recorded: Count = 0
    """Ledgers with a durable record of lost entries."""
    restarts: Count = 0
    """Restarts of the container in its pod, or of the process on the local platform."""
    failures: Count = 0
    """Ends in a row: no steady run between them, and none of them planned."""
    last_end: EndStatus | None = None
    """How its last process ended; absent when the platform saw none end."""
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
    """Where its control plane listens, `host:port`; empty = nowhere known."""
    silent_since: AwareDatetime | None = None
    """Since when this process has not answered; absent while it does."""
    hung_restarts: Count = 0
    """Restarts in a row that brought no answer."""
    gone_since: AwareDatetime | None = None
    """Since when it has not been registered with the metadata store; absent while it is."""
    rereplicated_at: AwareDatetime | None = None
    """When others were last found to have all that it held, since it is away; absent: they have not
    been."""
    pod: ShortText = ""
    """Pod, node and the node's boot of the boot whose record is known."""
    node: ShortText = ""
    """Node of the pod; empty on the local platform."""
    node_boot_id: ShortText = ""
    """The node's boot: another one means that the node itself was restarted."""
    rack: ShortText = ""
    """From a label of its node (`spec.rackTopologyKey`); empty = not known."""
    advertised: LongText = ""
    """Where clients outside of the Kubernetes cluster reach it (`spec.external`), such as
    `stock=192.0.2.7:31811 run=192.0.2.7:31812`; empty = nowhere, or no address was given yet."""
    tls: ShortText = ""
    """What its ports take, `Accepted` (TLS and plain) or `Required` (TLS); empty = plain. Kept
    from before until another process has booted."""
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
    """Its disks, in the order of `storage.disks`."""
    repair: RepairStatus | None = None
    """Its last repair; absent when it never needed one."""
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
    """Id of the bookie that it happened to."""
    boot_epoch_before: Count = 0
    """The last boot before it; 0 = not known."""
    boot_epoch_after: Count = 0
    """The boot that found it."""
    cause: ShortText = ""
    """What the platform saw: OOMKilled, Signal, ExitCode, PodReplaced, NodeRestarted, NodeChanged;
    empty = nothing. The bookie is believed in any case."""
    cause_message: LongText = ""
    """What the platform saw, in its words."""
    outcome: IncidentOutcome = IncidentOutcome.OPEN
    """`Open`, `Cleared` (its limbo is 0) or `Superseded` (a later incident of the bookie took over
    what was left)."""
    ledgers_fenced: Count = 0
    """Ledgers that the boot fenced, so that nobody writes to them as if nothing had happened."""
    ledgers_in_limbo: Count = 0
    """Ledgers that the boot put in limbo."""
    ledgers_unchecked: Count = 0
    """Ledgers that the boot marked as unchecked."""
    stopped_at: AwareDatetime | None = None
    """When the process ended, if the platform saw it."""
    detected_at: AwareDatetime
    """When the operator learned of it."""
    cleared_at: AwareDatetime | None = None
    """When limbo was 0 again; absent while it is open."""
    seconds_to_detect: float | None = None
    """From the stop (else from the start of the boot that found it) to the detection."""
    seconds_to_clear: float | None = None
    """From the detection to cleared, in seconds; absent while it is open."""
    entries_recovered: Count = 0
    """Written back by recoveries, before the ledgers were closed."""
    entries_copied: Count = 0
    """Copied to bookies that lacked them, after their ledgers were closed."""
    entries_copied_closed: Count = 0
    """Of those, entries of ledgers that were CLOSED before the repair."""
    ledgers_recovered: Count = 0
    """Ledgers that repairs closed."""
    attempts: Count = 0
    """Repair jobs that it took."""
    counted_jobs: Annotated[tuple[ShortText, ...], Field(max_length=100)] = ()
    """Repair jobs whose copies are in the sums above."""


class LimboTotals(StatusPart):
    """Limbo of all bookies together."""

    ledgers: Count = 0
    """Ledgers in limbo, counted on each bookie that has them so."""
    unchecked: Count = 0
    """Unchecked ledgers, counted likewise."""
    bookies: Annotated[tuple[ShortText, ...], Field(max_length=BOOKIES_MAX)] = ()
    """Ids of bookies with limbo or unchecked ledgers."""
    oldest_since: AwareDatetime | None = None
    """When the oldest open incident of these was detected; absent without limbo."""
    cleared_total: Count = 0
    """Ledgers that left limbo since the cluster was made; never falls."""


class ClassCounts(StatusPart):
    """One class of an audit's findings."""

    findings: Count = 0
    """Ledgers, or bookies where the class is about bookies."""
    entries: Count = 0
    """Entries concerned; 0 where the class is not about entries."""


ClassName = Annotated[str, StringConstraints(pattern=rf"^{CLASS_PATTERN}$")]


class AttemptStatus(StatusPart):
    """Numbered attempts of one kind of job: the last finished, and what runs or failed since."""

    running: bool = False
    """One runs now."""
    attempt: Count = 0
    """Started so far: names the next one's job."""
    failures: Count = 0
    """Failed in a row."""
    started_at: AwareDatetime | None = None
    """When the last one began; absent before the first."""
    finished_at: AwareDatetime | None = None
    """When the last one that came to its end did; absent before."""
    next_at: AwareDatetime | None = None
    """Not before then is a failed one tried again."""
    clean: bool | None = None
    """Nothing is found, or left, by the last finished one."""
    message: LongText = ""
    """What the last one said, or why it failed."""
    progress: ShortText = ""
    """How far the one that runs is, by its own word."""


class Holders(StatusPart):
    """Entries with too few known copies that the same bookies hold."""

    known: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that have a good copy."""
    perhaps: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that may have one, and could not say so."""
    entries: Count = 0
    """How many entries only these hold."""
    ledgers: Count = 0
    """How many ledgers these entries are of."""
    first_ledgers: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()
    """Ids of the first of these ledgers, 16 at most."""


class LastCopies(StatusPart):
    """Who holds what is left of entries with too few copies."""

    entries: Count = 0
    """Entries with fewer known copies than they need."""
    groups: Count = 0
    """Sets of bookies that hold them; `heldBy` may list fewer."""
    entries_left_out: Count = 0
    """Of which nobody kept who holds them."""
    held_by: Annotated[tuple[Holders, ...], Field(max_length=HOLDERS_MAX)] = ()
    """One item for each such set of bookies, 64 at most."""

    @property
    def is_complete(self) -> bool:
        """Bookies that are not named hold no last copy."""
        return len(self.held_by) == self.groups and not self.entries_left_out


class QuorumsStatus(StatusPart):
    """The ledgers' own quorums."""

    ack_asked: Count | None = None
    """The ack quorum that the audit was asked for."""
    ack_lowest: Count | None = None
    """The lowest ack quorum of any ledger; absent without ledgers."""
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
    """Ledgers that it looked at."""
    entries: Count = 0
    """Entries of these: ok, missing, unknown and lost together."""
    ok: Count = 0
    """Entries with every copy that they must have."""
    missing: Count = 0
    """Entries that lack a copy."""
    unknown: Count = 0
    """Entries of which a bookie that did not answer may have a copy."""
    below_write_quorum: Count = 0
    """Entries with fewer copies than the write quorum."""
    below_ack_quorum: Count = 0
    """Entries with fewer copies than the ack quorum."""
    no_copy: Count = 0
    """Entries without any copy."""
    lost: Count = 0
    """Entries in a durable loss record, after every member said that it has none."""
    accepted_losses: Count = 0
    """Ledgers that a person let close at a possible loss."""
    classes: Annotated[dict[ClassName, ClassCounts], Field(max_length=CLASSES_MAX)] = Field(
        default_factory=dict
    )
    """Findings by class, such as `missing`; a class without findings may be absent."""
    quorums: QuorumsStatus | None = None
    """Absent: the engine did not say."""
    last_copies: LastCopies | None = None
    """Absent: the engine did not say, so that with findings every bookie may hold one."""


class ScrubStatus(AttemptStatus):
    """The last finished scrub, and the attempt that runs or failed since."""

    scheduled_at: AwareDatetime | None = None
    """Since when there is a schedule; absent without one."""
    ledgers: Count = 0
    """Ledgers that it read."""
    entries: Count = 0
    """Entries of these."""
    corrupt_found: Count = 0
    """Copies that could not be read, or had a wrong digest."""
    corrupt_replaced: Count = 0
    """Of these, those that are good again."""
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
    """Copies that it made of entries that lacked one."""
    corrupt_replaced: Count = 0
    """Corrupt copies that are good again."""


class RereplicationStatus(AttemptStatus, EngineUse):
    """The last finished re-replication, and the attempt that runs or failed since."""

    bookie: ShortText = ""
    """The bookie that is away, whose ledgers got other members; empty = only what marks name."""
    ledgers_moved: Count = 0
    """Ledgers that got a new member."""
    ledgers_left: Count = 0
    """Ledgers that still name that bookie."""
    blocked: Count = 0
    """Ledgers that something was in the way of."""
    marks_found: Count = 0
    """BookKeeper's marks of under-replicated ledgers that it found."""
    marks_cleared: Count = 0
    """Of these, those that it took away after the ledger was whole."""
    entries_copied: Count = 0
    """Copies that it made."""


class DrainPhase(StrEnum):
    HELD = "Held"
    """Wanted, and refused for the time being: status.blocked says why."""
    DRAINING = "Draining"
    EMPTIED = "Emptied"
    """No ledger names it, by its own word, or since others hold what it held and it stays away; it
    is looked at once more before it goes."""
    REMOVING = "Removing"


class DrainStatus(EngineUse):
    """The bookie that leaves next, since fewer are wanted or its number is excluded; absent when
    none is to leave."""

    bookie: ShortText
    """Id of the bookie that leaves."""
    phase: DrainPhase
    """`Held`, `Draining`, `Emptied` or `Removing`."""
    started_at: AwareDatetime
    """Since when it is to leave."""
    ledgers_left: Count | None = None
    """Ledgers that name it, by its own count; absent = not counted."""
    is_running: bool = False
    """A job moves its ledgers now."""
    progress: ShortText = ""
    """How far that job is, by its own word."""
    attempt: Count = 0
    """Number of the last job that moved its ledgers."""
    failures: Count = 0
    """Jobs in a row that moved nothing."""
    next_attempt_at: AwareDatetime | None = None
    """Not before then does another job begin."""
    instance: ShortText = ""
    """The process that is being removed; empty = there is none."""
    ledgers_moved: Count = 0
    """Ledgers that its jobs moved, all together."""
    entries_copied: Count = 0
    """Copies that its jobs made, all together."""
    message: LongText = ""
    """What is in the way, or what the last job said."""
    racks: LongText = ""
    """What new ledgers lose once it has left: copies in fewer racks than `audit.minRacks`; empty =
    nothing, or not every bookie's rack is known."""

    @property
    def is_removing(self) -> bool:
        return self.phase is DrainPhase.REMOVING


class Blocked(StatusPart):
    """An action that is wanted and refused, and the predicate that refused it."""

    bookie: ShortText = ""
    """Id of the bookie that it is about; empty = the whole cluster."""
    action: ShortText
    """What is wanted: Restart, ReplaceDisk, CookieFix, Repair, ScaleDown and so on."""
    predicate: ShortText
    """One word for what refuses it, such as LossBudgetExceeded or LimboPresent."""
    since: AwareDatetime
    """Since when it is refused by that."""
    message: LongText = ""
    """Why, in words; where the API server refused, in its words."""


class LossBudgetStatus(StatusPart):
    """How many bookies may be out at once with no acknowledged entry at risk, and why so many."""

    limit: Count = 0
    """Bookies that may be out, or lose what they hold, at the same time."""
    reason: ShortText = ""
    """AckQuorum, NotAudited, OlderAudit, LowerQuorum, SingleCopy or LastCopy."""
    message: LongText = ""
    """What the limit rests on, in words."""
    last_copies_on: Annotated[tuple[ShortText, ...], Field(max_length=BOOKIES_MAX)] = ()
    """Bookies that may hold the last known copy of an entry: nothing takes them away."""


class MetadataStatus(StatusPart):
    """The metadata store, as the last look found it."""

    url: LongText = ""
    """Where it is, `zk://host:port/ledgers`."""
    reachable: bool = False
    """It answered the last look."""
    instance_id: ShortText = ""
    """Id of the cluster in it, kept for the cluster's life; empty = not initialised yet."""


def _by_keys(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class ClusterStatus(StatusPart):
    """What the operator concluded at its last look."""

    untouched = frozenset({"mend", "scrub", "rereplication"})

    observed_generation: Count = 0
    """Generation of the spec that all of this is about."""
    generation_since: AwareDatetime | None = None
    """When this generation of the spec was first looked at: what failed before is tried again."""
    phase: ShortText = "Pending"
    """One word for people; machines read the conditions."""
    replicas: Count = 0
    """Bookies that run, or are to run again in a moment."""
    ready_replicas: Count = 0
    """Bookies that serve, those in limbo, read-only and draining among them."""
    updated_replicas: Count = 0
    """Wanted bookies that run with the settings that the spec asks for."""
    selector: LongText = ""
    """Labels of the bookies' pods, as the scale subresource needs them."""
    disruptions_allowed: Count = 0
    """What the PodDisruptionBudget grants: 0 while limbo exists, or a last copy might go."""
    loss_budget: LossBudgetStatus | None = None
    """How many bookies may be out at once, and why; absent before the first look."""
    metadata: MetadataStatus = MetadataStatus()
    """The metadata store."""
    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=32, json_schema_extra=_by_keys("type"))
    ] = ()
    """What is so and what is not, one item for each type."""
    bookies: Annotated[
        tuple[BookieStatus, ...], Field(max_length=BOOKIES_MAX, json_schema_extra=_by_keys("id"))
    ] = ()
    """Every bookie that is wanted, was known or is there, in numeric order."""
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
    """Certificates, and the ways from one authority or mode to another; absent without TLS."""
    left_over: Annotated[
        tuple[LeftOverStatus, ...],
        Field(max_length=LEFT_OVER_MAX, json_schema_extra=_by_keys("bookie")),
    ] = ()
    """Bookies that left and of which a cookie or volumes are kept."""
    blocked: Annotated[tuple[Blocked, ...], Field(max_length=BLOCKED_MAX)] = ()
    """Actions that are wanted and refused now, with what refuses each."""
    incidents: Annotated[tuple[Incident, ...], Field(max_length=200)] = ()
    """Unclean stops and changed disks, the oldest first; the last 50 closed ones are kept."""

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
