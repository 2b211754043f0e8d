"""Status of a BookieCluster: what the planner concluded, for people and programs.

Only the planner writes it, and reads it again on the next pass: the operator has no other memory.
Times are UTC. Counts that change with every add are left out, so that the status of a healthy
cluster does not change all the time.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from bookie_operator.model.base import LongText, Resource, ShortText, StatusPart
from bookie_operator.model.left_over import LEFT_OVER_MAX, LeftOverStatus
from bookie_operator.model.tls import TlsStatus
from bookie_operator.model.undecided import MEMBERS_MAX, UndecidedStatus

BOOKIES_MAX: Final = 100
BLOCKED_MAX: Final = 200
INCIDENTS_MAX: Final = 50
"""Closed incidents that are kept; open ones are always kept."""

CLASSES_MAX: Final = 32
COLLECT: Final = "Collect"
"""Action in `blocked`: a bookie waits for approval to remove entries of deleted ledgers."""
LAST_COPY: Final = "LastCopy"
"""Predicate, and reason of the loss budget: the last known copy of an entry might be lost."""
NOT_REREPLICATED: Final = "NotRereplicated"
"""Predicate: a bookie that is to leave is away, and other bookies do not hold its entries yet."""
HOLDERS_MAX: Final = 64
"""Groups of bookies that hold last copies, at most, in a status."""
LEDGERS_MAX: Final = 16
"""Ledgers that a group or a quorum names, at most."""
CLASS_PATTERN: Final = r"[a-z][a-z_]{0,39}"
"""Names of an audit's classes of findings."""

Count = Annotated[int, Field(ge=0)]


def whole_milliseconds(moment: datetime) -> datetime:
    """The moment in UTC, cut to milliseconds, as the status stores it."""
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class ConditionType(StrEnum):
    READY = "Ready"
    """Every wanted bookie serves with the settings of the spec: kstatus, Helm, Flux and Argo CD
    wait for it."""
    STALLED = "Stalled"
    """Waiting does not help: a person has to act. kstatus reports the object as failed."""
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
    """Every certificate works and will not expire soon; absent while there are no certificates."""
    TLS_IN_FORCE = "TlsInForce"
    """Every bookie uses TLS as the spec says; absent if the spec never asked for TLS."""
    SECRETS_USABLE = "SecretsUsable"
    """The Secrets that the spec names can be used; absent if it names none."""
    PAUSED = "Paused"


class Condition(Resource):
    """One metav1.Condition."""

    type: ShortText
    """Name of the condition, such as Ready or LimboPresent; docs/operating.md lists all."""
    status: Literal["True", "False", "Unknown"]
    """`True`, `False`, or `Unknown` if the operator cannot tell."""
    reason: ShortText
    """Why, in one word, for programs."""
    message: LongText = ""
    """Why, in a sentence, for people."""
    observed_generation: Count = 0
    """Generation of the spec that the condition is about."""
    last_transition_time: AwareDatetime
    """When the status of the condition last changed."""


class BookieState(StrEnum):
    PENDING = "Pending"
    """No process yet."""
    STARTING = "Starting"
    """Its control plane does not answer yet; or, for at most a minute, its last process was asked
    to stop or its pod is missing, and a new process is about to start."""
    BOOTING = "Booting"
    MARKING = "Marking"
    AWAITING_APPROVAL = "AwaitingApproval"
    SERVING = "Serving"
    LIMBO = "Limbo"
    """Serving, but it may have forgotten entries of some ledgers."""
    READ_ONLY = "ReadOnly"
    DRAINING = "Draining"
    """Serving reads while its ledgers are moved to other bookies; it is to leave."""
    LEAVING = "Leaving"
    """Drained and being removed: no ledger names it."""
    STOPPING = "Stopping"
    REFUSED = "Refused"
    UNRESPONSIVE = "Unresponsive"
    CRASH_LOOP = "CrashLoop"
    """Its process ends each time before its control plane answers."""
    DOWN = "Down"


class LastShutdown(StatusPart):
    """How the process before this boot ended, as the bookie found on its disks."""

    clean: bool
    """True: everything was flushed before the process ended."""
    reason: ShortText = ""
    """CleanStop, FirstBoot, or why it was unclean, such as UncleanShutdown or DiskReplaced."""


class DiskStatus(StatusPart):
    """A disk of a bookie, as its last known boot found it."""

    name: ShortText
    """Name of the disk in `storage.disks`."""
    role: ShortText
    """`journal` or `ledger`."""
    volume_uid: ShortText = ""
    """Uid of the volume that the bookie's last known boot found."""
    disk_id: ShortText = ""
    """Random id that the bookie has written on the disk; empty = not known."""
    verdict: ShortText = ""
    """What the bookie found at boot: ok, new, empty, stale, foreign, swapped or torn."""
    total_bytes: Count = 0
    """Size of its file system in bytes; 0 = not known."""


class EngineUse(StatusPart):
    """Which engine did the work and why; with Spark, which application."""

    engine: ShortText = ""
    """`inline`, `spark-local` or `spark-kubernetes`; empty = not known yet."""
    engine_reason: LongText = ""
    """Why this engine, in words."""
    spark_app_id: ShortText = ""
    """Id of the Spark application; empty without Spark."""
    executors: Count = 0
    """Number of Spark executors; 0 without Spark."""


class RepairState(StrEnum):
    WAITING = "Waiting"
    """A repair is needed, but no attempt has begun."""
    RUNNING = "Running"
    FINISHED = "Finished"
    """The bookie says that no mark is left; only then has a repair succeeded."""
    FAILED = "Failed"
    """An attempt has ended, but marks are left."""


class RepairStatus(EngineUse):
    """The repair of one episode: a bookie, and the boot after which it needs a repair."""

    episode: ShortText
    """Bookie and boot epoch, such as `bookie-1-7`. Each unclean boot begins a new episode."""
    state: RepairState
    """`Waiting`, `Running`, `Finished` (the bookie has no mark left) or `Failed` (an attempt ended
    but marks are left)."""
    attempt: Count = 0
    """Number of the last attempt; 0 = no attempt has begun."""
    started_at: AwareDatetime | None = None
    """When the last attempt began; absent before the first."""
    ended_at: AwareDatetime | None = None
    """When the last attempt ended; absent while one runs."""
    next_attempt_at: AwareDatetime | None = None
    """The next attempt begins no earlier than this."""
    ledgers_total: Count = 0
    """The largest number of marked ledgers that the bookie has reported since this boot."""
    ledgers_cleared: Count = 0
    """How many of `ledgersTotal` have no marks any more."""
    progress: ShortText = ""
    """`ledgersCleared` of `ledgersTotal` as text, such as `37/120 ledgers (30 %)`."""
    undecided: UndecidedStatus | None = None
    """Ledgers that the last attempt could not close; absent if there are none."""
    message: LongText = ""
    """The message of the last attempt, or why no attempt runs."""


class EndStatus(StatusPart):
    """How a process of a bookie ended, as Kubernetes or the local platform saw it."""

    at: AwareDatetime
    """When the process ended."""
    code: int | None = None
    """Exit code of the process, negative for a signal; absent if it is not known."""
    reason: ShortText = ""
    """Why it ended: OOMKilled, a signal or an exit code, in words."""
    pod: ShortText = ""
    """Uid of its pod; empty on the local platform."""


class BookieStatus(StatusPart):
    """One bookie: what it reports about itself, and what the platform knows about its process."""

    id: ShortText
    """Id of the bookie, `bookie-0` and so on."""
    state: BookieState
    """One word: Pending, Starting, Booting, Marking, AwaitingApproval, Serving, Limbo, ReadOnly,
    Draining, Leaving, Stopping, Refused, Unresponsive, CrashLoop or Down; docs/operating.md says
    what each means."""
    state_since: AwareDatetime | None = None
    """When it entered this state."""
    message: LongText = ""
    """The problem, in the words of the bookie or the platform; empty if there is none."""
    boot_epoch: Count = 0
    """Number of its last known boot; 0 = it has never booted."""
    last_shutdown: LastShutdown | None = None
    """How the process before this boot ended; absent before the first boot."""
    mode: ShortText = ""
    """When it acknowledges adds, since its last known boot: `journal`, `memory` or `sync`; empty =
    not known."""
    limbo_ledgers: Count = 0
    """Number of ledgers of which it may have forgotten entries. While it does not answer, the last
    known number."""
    unchecked_ledgers: Count = 0
    """Number of ledgers that need no recovery after its crash, but whose copies on it are not
    verified yet."""
    losses_recorded: Count = 0
    """Number of ledgers for which it keeps a record of lost entries."""
    restarts: Count = 0
    """Restarts of the container in its pod, or of the process on the local platform."""
    failures: Count = 0
    """How often in a row its process has ended unplanned, without a steady run in between."""
    last_end: EndStatus | None = None
    """How its last process ended; absent if the platform saw none end."""
    first_kill: EndStatus | None = None
    """The first kill of its process that was seen after the boot in `bootEpoch`. Only the first one
    can explain the next boot."""
    instance: ShortText = ""
    """Identifies the process or container; it has no other meaning."""
    revision: ShortText = ""
    """Hash of the settings with which this process runs; it differs from bookie to bookie."""
    is_updated: bool | None = None
    """Whether it runs with the settings of the spec; absent without a process."""
    version: ShortText = ""
    """Version of its program, as the bookie reports it."""
    control: ShortText = ""
    """Address of its control plane, `host:port`; empty = not known."""
    silent_since: AwareDatetime | None = None
    """When this process stopped answering; absent while it answers."""
    hung_restarts: Count = 0
    """How often in a row it was restarted for not answering, without success."""
    gone_since: AwareDatetime | None = None
    """Since when it has not been registered in the metadata store; absent while it is
    registered."""
    rereplicated_at: AwareDatetime | None = None
    """When, while it is away, other bookies were last found to hold all its entries; absent: not
    yet."""
    pod: ShortText = ""
    """Pod in which its last known boot happened; see also `node` and `nodeBootId`."""
    node: ShortText = ""
    """Node of that pod; empty on the local platform."""
    node_boot_id: ShortText = ""
    """Id of the node's boot; if it changes, the node itself was restarted."""
    rack: ShortText = ""
    """Its rack, from a label of its node (`spec.rackTopologyKey`); empty = not known."""
    advertised: LongText = ""
    """Addresses for clients outside of the Kubernetes cluster (`spec.external`), such as
    `stock=192.0.2.7:31811 run=192.0.2.7:31812`; empty = none, or not known yet."""
    tls: ShortText = ""
    """Whether its ports use TLS: `Accepted` (with and without TLS) or `Required`; empty = without.
    The last known value stays until another process has booted."""
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
    """Its last repair; absent if it never needed one."""
    fix_held: LongText = ""
    """Why only a person may approve its changed disks; this stays until the bookie has booted."""


class IncidentOutcome(StrEnum):
    OPEN = "Open"
    CLEARED = "Cleared"
    SUPERSEDED = "Superseded"
    """The bookie stopped uncleanly again; a later incident covers what was left."""


class Incident(EngineUse):
    """An unclean stop or a changed disk, from its detection until no ledger is in limbo any
    more."""

    kind: ShortText
    """What happened: UncleanShutdown, DiskReplaced, DiskWiped, DiskStale, TornLog,
    MarkingInterrupted, ..."""
    bookie: ShortText
    """Id of the bookie that it happened to."""
    boot_epoch_before: Count = 0
    """Number of the last boot before it; 0 = not known."""
    boot_epoch_after: Count = 0
    """Number of the boot that found it."""
    cause: ShortText = ""
    """The cause that the platform saw: OOMKilled, Signal, ExitCode, PodReplaced, NodeRestarted or
    NodeChanged; empty = none. Whether the stop was unclean is decided by the bookie, not by
    this."""
    cause_message: LongText = ""
    """The cause, in the platform's words."""
    outcome: IncidentOutcome = IncidentOutcome.OPEN
    """`Open`, `Cleared` (no ledger is in limbo any more) or `Superseded` (a later incident of the
    bookie covers what was left)."""
    ledgers_fenced: Count = 0
    """Number of ledgers that the boot fenced forever, as more had happened than a stop: it refuses
    their old writers' adds."""
    ledgers_in_limbo: Count = 0
    """Number of ledgers that the boot put into limbo."""
    ledgers_unchecked: Count = 0
    """Number of ledgers that the boot marked as unchecked."""
    stopped_at: AwareDatetime | None = None
    """When the process ended, if the platform saw it."""
    detected_at: AwareDatetime
    """When the operator learned of it."""
    cleared_at: AwareDatetime | None = None
    """When no ledger was in limbo any more; absent while the incident is open."""
    seconds_to_detect: float | None = None
    """Seconds from the stop to the detection; if the stop is not known, from the start of the boot
    that found it."""
    seconds_to_clear: float | None = None
    """Seconds from the detection until it was cleared; absent while it is open."""
    entries_recovered: Count = 0
    """Number of entries that recoveries wrote back before they closed the ledgers."""
    entries_copied: Count = 0
    """Number of entries that repairs copied to bookies that lacked them, in closed ledgers."""
    entries_copied_closed: Count = 0
    """How many of these were in ledgers that were closed before the repair."""
    ledgers_recovered: Count = 0
    """Number of ledgers that repairs recovered and closed."""
    attempts: Count = 0
    """Number of repair jobs that were needed."""
    counted_jobs: Annotated[tuple[ShortText, ...], Field(max_length=100)] = ()
    """Names of the repair jobs whose entries are in the sums above."""


class LimboTotals(StatusPart):
    """Limbo of all bookies together."""

    ledgers: Count = 0
    """Number of ledgers in limbo, counted once for each bookie on which they are."""
    unchecked: Count = 0
    """Number of unchecked ledgers, counted in the same way."""
    bookies: Annotated[tuple[ShortText, ...], Field(max_length=BOOKIES_MAX)] = ()
    """Ids of bookies with limbo or unchecked ledgers."""
    oldest_since: AwareDatetime | None = None
    """When the oldest open incident of these bookies was detected; absent without limbo."""
    cleared_total: Count = 0
    """Number of ledgers that have left limbo since the cluster was created; it never falls."""


class ClassCounts(StatusPart):
    """Counts of one class of an audit's findings."""

    findings: Count = 0
    """Number of ledgers, or of bookies if the class is about bookies."""
    entries: Count = 0
    """Number of affected entries; 0 if the class is not about entries."""


ClassName = Annotated[str, StringConstraints(pattern=rf"^{CLASS_PATTERN}$")]


class AttemptStatus(StatusPart):
    """The attempts of one kind of job: the last finished one, and one that runs or failed since."""

    running: bool = False
    """Whether a job of this kind runs now."""
    attempt: Count = 0
    """Number of jobs started so far; the next job's name is made from it."""
    failures: Count = 0
    """How many jobs have failed in a row."""
    started_at: AwareDatetime | None = None
    """When the last job began; absent before the first."""
    finished_at: AwareDatetime | None = None
    """When the last completed job ended; absent before the first."""
    next_at: AwareDatetime | None = None
    """After a failure, the next job begins no earlier than this."""
    clean: bool | None = None
    """Whether the last finished job found nothing, or left nothing undone."""
    message: LongText = ""
    """The message of the last job, or why it failed."""
    progress: ShortText = ""
    """How far the running job is, as it reports."""


class Holders(StatusPart):
    """Entries with too few known copies, and the bookies that hold them."""

    known: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that have a good copy."""
    perhaps: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that may have a good copy, but did not say."""
    entries: Count = 0
    """Number of entries that only these bookies hold."""
    ledgers: Count = 0
    """Number of ledgers to which these entries belong."""
    first_ledgers: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()
    """Ids of the first of these ledgers, at most 16."""


class LastCopies(StatusPart):
    """Which bookies hold entries with too few copies."""

    entries: Count = 0
    """Number of entries with fewer known copies than they need."""
    groups: Count = 0
    """Number of different groups of bookies that hold them; `heldBy` may list fewer."""
    entries_left_out: Count = 0
    """Number of such entries whose holders were not recorded."""
    held_by: Annotated[tuple[Holders, ...], Field(max_length=HOLDERS_MAX)] = ()
    """One item for each group of bookies, at most 64."""

    @property
    def is_complete(self) -> bool:
        """Whether all holders are listed, so that other bookies hold no last copy."""
        return len(self.held_by) == self.groups and not self.entries_left_out


class QuorumsStatus(StatusPart):
    """The quorums with which the ledgers were created."""

    ack_asked: Count | None = None
    """The ack quorum that the audit checked for."""
    ack_lowest: Count | None = None
    """The lowest ack quorum of any ledger; absent without ledgers."""
    copies_lowest: Count | None = None
    """The lowest number of certain copies of any entry: the ack quorum for a ledger that is being
    written, the write quorum for a closed one. Absent without ledgers."""
    ledgers_lowest: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()
    """Ids of the first ledgers with that number."""


class AuditStatus(AttemptStatus, EngineUse):
    """The last finished audit, and an audit that runs or failed since."""

    asked_at: AwareDatetime | None = None
    """When the operator last saw something after which an audit is needed."""
    ledgers: Count = 0
    """Number of ledgers that it checked."""
    entries: Count = 0
    """Number of entries in these ledgers: the sum of ok, missing, unknown and lost."""
    ok: Count = 0
    """Number of entries that have every copy that they must have."""
    missing: Count = 0
    """Number of entries that lack a copy."""
    unknown: Count = 0
    """Number of entries of which a bookie that did not answer may have a copy."""
    below_write_quorum: Count = 0
    """Number of entries with fewer copies than the write quorum."""
    below_ack_quorum: Count = 0
    """Number of entries with fewer copies than the ack quorum."""
    no_copy: Count = 0
    """Number of entries without any copy."""
    lost: Count = 0
    """Number of entries in loss records: every bookie of the ledger has said that it has no
    copy."""
    accepted_losses: Count = 0
    """Number of ledgers that were closed because a person accepted a possible loss."""
    classes: Annotated[dict[ClassName, ClassCounts], Field(max_length=CLASSES_MAX)] = Field(
        default_factory=dict
    )
    """Counts of findings by class, such as `missing`; a class without findings may be absent."""
    quorums: QuorumsStatus | None = None
    """The ledgers' quorums. Absent: the job did not report them."""
    last_copies: LastCopies | None = None
    """Which bookies hold last copies. Absent: the job did not report it, so if there are findings,
    any bookie may hold one."""


class ScrubStatus(AttemptStatus):
    """The last finished scrub, and a scrub that runs or failed since."""

    scheduled_at: AwareDatetime | None = None
    """When the schedule was set; absent without a schedule."""
    ledgers: Count = 0
    """Number of ledgers that it read."""
    entries: Count = 0
    """Number of entries in these ledgers."""
    corrupt_found: Count = 0
    """Number of copies that could not be read or had a wrong digest."""
    corrupt_replaced: Count = 0
    """How many of these were replaced by good copies."""
    blocked: Count = 0
    """Number of ledgers of which not every copy could be verified or replaced."""
    last_copies: LastCopies | None = None
    """Which bookies hold last copies, after the scrub has replaced what it could."""


class MendStatus(AttemptStatus, EngineUse):
    """The last finished repair of an audit's findings, and one that runs or failed since."""

    rounds: Count = 0
    """Number of repairs finished since the last clean audit; with each, the next one waits
    longer."""
    ledgers: Count = 0
    """Number of ledgers that it checked, which is all ledgers."""
    blocked: Count = 0
    """Number of ledgers that it could not repair."""
    entries_copied: Count = 0
    """Number of missing copies that it made."""
    corrupt_replaced: Count = 0
    """Number of corrupt copies that it replaced by good ones."""


class RereplicationStatus(AttemptStatus, EngineUse):
    """The last finished re-replication, and one that runs or failed since."""

    bookie: ShortText = ""
    """The lost bookie that was replaced in its ledgers; empty = only marked ledgers were
    restored."""
    ledgers_moved: Count = 0
    """Number of ledgers in which the bookie was replaced."""
    ledgers_left: Count = 0
    """Number of ledgers that still name the bookie."""
    blocked: Count = 0
    """Number of ledgers that could not be finished."""
    marks_found: Count = 0
    """Number of ledgers that it found marked as under-replicated by BookKeeper."""
    marks_cleared: Count = 0
    """How many of these marks it deleted because the ledger had all copies."""
    entries_copied: Count = 0
    """Number of copies that it made."""


class DrainPhase(StrEnum):
    HELD = "Held"
    """Wanted but refused now: status.blocked says why."""
    DRAINING = "Draining"
    EMPTIED = "Emptied"
    """No ledger names it; or it stays away and other bookies hold its entries. The operator checks
    this once more before it removes the bookie."""
    REMOVING = "Removing"


class DrainStatus(EngineUse):
    """The bookie that leaves next, because fewer are wanted or its number is excluded."""

    bookie: ShortText
    """Id of the bookie that leaves."""
    phase: DrainPhase
    """`Held`, `Draining`, `Emptied` or `Removing`."""
    started_at: AwareDatetime
    """When it was first to leave."""
    ledgers_left: Count | None = None
    """Number of ledgers that name it, as the bookie counts them; absent = not counted."""
    is_running: bool = False
    """Whether a job moves its ledgers now."""
    progress: ShortText = ""
    """How far that job is, as it reports."""
    attempt: Count = 0
    """Number of the last job that moved its ledgers."""
    failures: Count = 0
    """Number of jobs in a row that moved nothing."""
    next_attempt_at: AwareDatetime | None = None
    """The next job begins no earlier than this."""
    instance: ShortText = ""
    """Identifies the process that is being removed; empty = there is none."""
    ledgers_moved: Count = 0
    """Number of ledgers that all its jobs together have moved."""
    entries_copied: Count = 0
    """Number of copies that all its jobs together have made."""
    message: LongText = ""
    """Why it cannot leave yet, or the message of the last job."""
    racks: LongText = ""
    """Warning that once it has left, copies of new ledgers are in fewer racks than
    `audit.minRacks`; empty = they are not, or not every bookie's rack is known."""

    @property
    def is_removing(self) -> bool:
        return self.phase is DrainPhase.REMOVING


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
