"""BookieCluster: what a person asks for. Its status is in `status.py`, its CRD in `crd.py`.

Every rule stands twice: as a validator here, whose message names field, found and expected, and as
a CEL rule for the API server. `check_transition` holds the rules about changes of a live cluster.
"""

import itertools
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from bookie.ids import BookieId
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from bookie_operator.errors import ManifestError
from bookie_operator.model.authentication import Authentication, Mechanism, SecretName
from bookie_operator.model.base import (
    API_VERSION,
    NAME_PATTERN,
    LongText,
    ObjectMeta,
    Resource,
    ShortText,
    rule,
)
from bookie_operator.model.external import External
from bookie_operator.model.network_policy import NetworkPolicies
from bookie_operator.model.pod_overlay import PodOverlay
from bookie_operator.model.quorum import REPLICAS_MAX, Quorum
from bookie_operator.model.schedule import Schedule
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import Tls, TlsMode, tls_mistakes

DISKS_MAX: Final = 32
_UNITS: Final = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
Size = Annotated[
    str, StringConstraints(pattern=r"^[1-9][0-9]{0,15}(Ki|Mi|Gi|Ti|Pi)?$", max_length=20)
]


def size_bytes(size: str) -> int:
    """Bytes of a quantity such as `5Gi`."""
    digits = size.rstrip("KMGTPi")
    return int(digits) * _UNITS[size[len(digits) :]]


def is_smaller(size: str, wanted: str) -> bool:
    """False also of a size that is not written as ours are: somebody else's claim."""
    try:
        return size_bytes(size) < size_bytes(wanted)
    except (KeyError, ValueError):
        return False


BytesPerSecond = Annotated[int, Field(ge=2**16, le=2**40)]


class DiskRole(StrEnum):
    JOURNAL = "journal"
    LEDGER = "ledger"


class AckMode(StrEnum):
    """When an add that skips the journal is acknowledged."""

    MEMORY = "memory"
    SYNC = "sync"


class FixPolicy(StrEnum):
    """Who decides that a bookie may take a replaced disk as its own."""

    AUTO = "Auto"
    APPROVE = "Approve"
    NEVER = "Never"


class RepairEngine(StrEnum):
    AUTO = "auto"
    INLINE = "inline"
    SPARK_LOCAL = "spark-local"
    SPARK_KUBERNETES = "spark-kubernetes"


class PullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"


def _whole_number_as_text(value: object) -> object:
    return str(value) if type(value) is int else value


Quantity = Annotated[
    str,
    BeforeValidator(_whole_number_as_text),
    StringConstraints(pattern=_QUANTITY, max_length=32),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _QUANTITY, "maxLength": 32}),
]
"""Such as `50m`, `1` (also as a number) or `256Mi`. A wrong one is refused here: as part of a pod
template it would be found only when the pod cannot be made."""
Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]
Labels = Annotated[dict[str, ShortText], Field(max_length=32)]
Ordinal = Annotated[int, Field(ge=0, le=REPLICAS_MAX - 1)]
"""Number of a bookie, the 2 of `bookie-2`."""


class PodResources(Resource):
    """What a pod asks of its node; no limit unless one is written."""

    requests: Quantities = Field(default_factory=dict)
    """What the scheduler keeps free for the pod, by resource, such as `cpu: 50m` or `memory:
    256Mi`."""
    limits: Quantities = Field(default_factory=dict)
    """What the pod may use at most, by resource; a bookie above its memory limit is killed, which
    is an unclean stop."""


class Toleration(Resource):
    """A taint of nodes that pods bear, as in a pod."""

    key: ShortText = ""
    """Key of the taint; empty with operator Exists: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """`Equal`: the taint's value must be `value`; `Exists`: any value."""
    value: ShortText = ""
    """Value of the taint, with operator Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Effect of the taint that is borne: NoSchedule, PreferNoSchedule or NoExecute; empty: every
    effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """With effect NoExecute: how long the pod stays on such a node, in seconds; absent: for
    good."""


class Scheduling(Resource):
    """Where bookies may run. They keep apart from each other by `topologyKey`."""

    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have, such as `disktype: ssd`; empty: every node."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints of nodes that bookies, and jobs that need their volumes, bear."""
    topology_key: ShortText = "kubernetes.io/hostname"
    """Label of nodes by which bookies keep apart: two of one value share a fate. By default a node
    each."""
    required: bool = False
    """True: two bookies never share a topology domain, even when one then has to wait."""
    priority_class_name: ShortText = ""
    """Name of a PriorityClass for bookies; empty: the cluster's default priority."""


class Disk(Resource):
    """One volume of every bookie. Name, role and order are fixed for the cluster's life."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=20)]
    """Name of the disk, a DNS label of at most 20 characters, such as `ledger-0`; part of its
    claim's name."""
    role: DiskRole
    """`journal`, exactly one of each bookie, or `ledger`, one or more."""
    size: Size = "10Gi"
    """Size of its volume, such as `10Gi`; it can grow, and never shrinks."""
    storage_class: ShortText = ""
    """Empty: the cluster's default class. Changed, it counts for volumes that are made from then
    on; status.blocked names those of another class."""


class Storage(Resource):
    """What each bookie stores on."""

    disks: Annotated[
        tuple[Disk, ...],
        Field(
            min_length=2,
            max_length=DISKS_MAX,
            json_schema_extra={
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    rule(
                        "self.exists_one(d, d.role == 'journal')",
                        "storage.disks needs exactly one disk of role journal",
                    ),
                    rule(
                        "self.all(d, self.exists_one(o, o.name == d.name))",
                        "storage.disks must have different names",
                    ),
                    rule(
                        "self.map(d, d.name + '/' + d.role) == "
                        "oldSelf.map(d, d.name + '/' + d.role)",
                        "number, order, name and role of disks cannot change: "
                        "ledgers are routed by them",
                    ),
                    rule(
                        "self.all(d, oldSelf.all(o, o.name != d.name || "
                        "quantity(d.size).compareTo(quantity(o.size)) >= 0))",
                        "a disk's size can only grow",
                    ),
                ],
            },
        ),
    ]
    """Volumes of each bookie: one of role journal and at least one of role ledger. Their number,
    order, names and roles cannot change, since ledgers are routed by them."""

    @field_validator("disks")
    @classmethod
    def _roles_and_names(cls, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
        journals = sum(disk.role is DiskRole.JOURNAL for disk in disks)
        if journals != 1:
            raise ValueError(f"found {journals} disks of role journal, expected exactly one")
        names = [disk.name for disk in disks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"found {', '.join(twice)} twice, expected different names")
        return disks


class EmbeddedMetadata(Resource):
    """A ZooKeeper of the cluster's own, run by the platform: one server, not an ensemble."""

    size: Size = "1Gi"
    """Of its volume, which grows with it and never shrinks."""
    storage_class: ShortText = ""
    """Empty: the cluster's default class. It counts when the volume is made, and cannot change."""
    resources: PodResources = PodResources(requests={"cpu": "50m", "memory": "256Mi"})
    """CPU and memory of ZooKeeper's pod; its heap is 128 MB."""


class Metadata(Resource):
    """Where ledgers are known: exactly one of the two."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "has(self.embedded) != has(self.connect)",
                    "metadata needs exactly one of embedded and connect",
                ),
                rule(
                    "has(self.connect) || !has(self.credentialsSecret)",
                    "metadata.credentialsSecret is for metadata.connect: a ZooKeeper of the "
                    "cluster's own knows the fleet by its certificates",
                ),
                rule(
                    "has(self.connect) == has(oldSelf.connect) && "
                    "(!has(self.connect) || self.connect == oldSelf.connect)",
                    "metadata cannot change: the ledgers are known there",
                ),
                rule(
                    "!has(self.embedded) || !has(oldSelf.embedded) || "
                    "(quantity(self.embedded.size).compareTo(quantity(oldSelf.embedded.size)) >= 0 "
                    "&& self.embedded.storageClass == oldSelf.embedded.storageClass)",
                    "metadata.embedded.size can only grow, and storageClass counts when its volume "
                    "is made: it cannot change",
                ),
            ]
        }
    )

    embedded: EmbeddedMetadata | None = None
    """Run a ZooKeeper of the cluster's own; the default. One of `embedded` and `connect` stands
    here."""
    connect: (
        Annotated[
            str, StringConstraints(pattern=r"^zks?://[^/,\s]+(,[^/,\s]+)*(/\S+)$", max_length=1024)
        ]
        | None
    ) = None
    """Use a ZooKeeper that is there: `zk://host:port[,host:port]/ledgers`, or `zks://` where it has
    TLS. It cannot change."""
    credentials_secret: SecretName | None = None
    """Secret with a user of that ZooKeeper's under the key `credentials`, YAML with scheme (digest
    or sasl), user and password; absent: the fleet has none. What the fleet makes there is its own
    from then on."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        found = [name for name in ("embedded", "connect") if getattr(self, name) is not None]
        if len(found) != 1:
            raise ValueError(
                f"found {' and '.join(found) or 'neither'}, expected exactly one of embedded and "
                "connect"
            )
        if self.credentials_secret is not None and self.connect is None:
            raise ValueError(
                f"credentialsSecret: found {self.credentials_secret}, expected none beside "
                "embedded: a ZooKeeper of the cluster's own knows the fleet by its certificates"
            )
        return self


class CookieFix(Resource):
    """What happens when a bookie comes back with a replaced or wiped disk."""

    policy: FixPolicy = FixPolicy.AUTO
    """`Auto`: the operator lets a bookie take a replaced disk as its own when the loss budget
    allows it; `Approve`: a person does, by a BookieTask; `Never`: such a boot is refused."""
    window_seconds: Annotated[int, Field(ge=0, le=7 * 86400)] = 600
    """Auto waits for a person when disks of more than one bookie changed within this time."""


class Repair(Resource):
    """How repairs and audits run as jobs."""

    engine: RepairEngine = RepairEngine.AUTO
    """`auto`: by the number of ledgers and entries; `inline`: one process; `spark-local`: Spark in
    the job's pod; `spark-kubernetes`: Spark with executor pods."""
    image: LongText = "bookie-operator/repair:0.2.0"
    """Image of repairs, audits and the embedded ZooKeeper, which need a Java."""
    executors: Annotated[int, Field(ge=1, le=64)] = 2
    """Executor pods of engine spark-kubernetes."""
    executor_cpu: Quantity = "100m"
    """CPU that each executor pod asks for; it has no limit."""
    executor_memory: Size = "512Mi"
    """Heap of each executor's JVM, `spark.executor.memory`."""
    executor_memory_overhead: Size = "384Mi"
    """What each executor's Python has beside the heap, `spark.executor.memoryOverhead`. The pod may
    use both together, and asks for them."""
    resources: PodResources = PodResources(requests={"cpu": "100m", "memory": "1Gi"})
    """Of the job's own pod, which is Spark's driver."""
    start_deadline_seconds: Annotated[float, Field(ge=1, le=86400)] = 180.0
    """A job whose pod has not started by then (an image that cannot be had) counts as failed."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """Failed attempts after which RepairStalled is set; slow retries go on."""
    backoff_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 30.0
    """Wait after the first failed attempt; doubled after each further one."""
    backoff_max_seconds: Annotated[float, Field(ge=0.1, le=86400)] = 900.0
    """The longest wait between two attempts, in seconds; at least `backoffSeconds` in effect."""
    deadline_seconds: Annotated[float, Field(ge=1, le=7 * 86400)] = 3600.0
    """A repair or audit that runs longer is stopped and counts as failed."""


class OnFindings(StrEnum):
    REPAIR = "Repair"
    REPORT = "Report"


class Audit(Resource):
    """Every copy that must be there is asked for and compared."""

    schedule: Schedule = "@hourly"
    """`@hourly`, `@daily`, `@every 30m`, cron in UTC (`0 3 * * *`), or `@never` (then only after
    what may have left copies out)."""
    on_findings: OnFindings = OnFindings.REPAIR
    """`Repair`: copies that an audit finds missing or corrupt are made again, once every bookie
    serves; `Report`: they are reported, and repaired when a person asks."""
    engine: RepairEngine = RepairEngine.AUTO
    """`auto`: by the number of ledgers; `inline`, `spark-local`, `spark-kubernetes`: as for
    `repair.engine`."""
    recheck_delay_seconds: Annotated[float, Field(ge=0, le=3600)] = 3.0
    """Before bookies that gave no answer are asked once more."""
    underreplicated_grace_seconds: Annotated[float, Field(ge=0, le=30 * 86400)] = 0.0
    """Ledgers that BookKeeper has marked under-replicated are left alone for so long."""
    min_racks: Annotated[int, Field(ge=1, le=16)] = 2
    """Racks that the copies of an entry have to span, as far as there are as many."""


class Scrub(Resource):
    """Every copy is read and its digest verified; corrupt ones are replaced from good ones."""

    schedule: Schedule = "@every 7d"
    """`@daily`, `@every 30d`, cron in UTC (`0 3 * * MON`), or `@never` (then only by a
    BookieTask)."""
    read_bytes_per_second: Annotated[int, Field(ge=64 * 1024, le=2**40)] = 8 * 1024 * 1024
    """From each bookie; clients read and write beside it."""
    deadline_seconds: Annotated[float, Field(ge=1, le=30 * 86400)] = 7 * 86400.0
    """A scrub that runs longer is stopped and counts as failed; the next one goes on from there."""


class Retention(Resource):
    """What happens to volumes; data is kept unless someone says otherwise."""

    when_deleted: Literal["Retain", "Delete"] = "Retain"
    """`Retain`: volumes stay when the BookieCluster is deleted, and serve one of the same name
    again; `Delete`: they go, for good."""
    when_scaled: Literal["Retain", "Delete"] = "Retain"
    """`Retain`: volumes of a bookie that left stay; `Delete`: they go with it, once no ledger names
    it."""


class Rollout(Resource):
    """How changed settings, a new image among them, reach the bookies."""

    partition: Annotated[int, Field(ge=0, le=REPLICAS_MAX)] = 0
    """Bookies with a number below this keep the settings that they run with, as in a StatefulSet;
    0, the default, holds nobody back. With 3 replicas, 2 lets bookie-2 alone go first, as a canary.
    It is the number that counts, whatever `excludedOrdinals` leaves out below it. One whose volume
    was replaced starts with the new settings all the same."""


def bookie_name(ordinal: int) -> BookieId:
    return BookieId(f"bookie-{ordinal}")


class BookieOptions(Resource):
    """The fields of a cluster's spec that its bookies' settings files repeat.

    They are one model so that they travel from the spec to the file in one piece. A new field is
    declared here and gets its section in `platform.bookie_settings`. Its default is None: what
    nobody has set is not written, and so an upgrade of the operator restarts no bookie.
    """

    journal_write_data: bool = False
    """False: entries skip the journal; an unclean stop then means fence, limbo and repair."""
    ack: AckMode = AckMode.MEMORY
    """`memory`: an add that skips the journal is acknowledged once it is in memory; `sync`: once it
    is on a synced disk. Without effect with journalWriteData."""
    flush_interval_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 10.0
    """How often what is in memory goes to the disks, in seconds; a crash forgets at most what came
    since."""
    compaction_bytes_per_second_busy: BytesPerSecond | None = None
    """What a bookie's compaction copies while clients append; 8 MiB when nothing is written."""
    recovery_bytes_per_second_busy: BytesPerSecond | None = None
    """What repairs may bring to a bookie while clients append; 8 MiB when nothing is written."""
    collect_grace_seconds: Annotated[float, Field(ge=1, le=604800)] | None = None
    """Between the two looks that miss a deleted ledger, before its entries go; 900 when nothing
    is written."""
    collect_share_max: Annotated[float, Field(gt=0, le=1)] | None = None
    """Of a bookie's ledgers: if more of them would go at once, it asks a person. 0.25 when nothing
    is written."""


class ClusterSpec(BookieOptions):
    """The wanted state of one fleet of bookies."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "self.replicas >= self.quorum.ensemble",
                    "replicas must be at least quorum.ensemble",
                ),
                rule(
                    f"self.replicas + size(self.excludedOrdinals) <= {REPLICAS_MAX}",
                    f"replicas and excludedOrdinals together must be at most {REPLICAS_MAX}: "
                    f"numbers of bookies end at {REPLICAS_MAX - 1}",
                ),
                rule(
                    "self.journalWriteData || self.ack != 'memory' || self.quorum.ack >= 2",
                    "quorum.ack must be at least 2 when journalWriteData is false and ack is "
                    "memory: one unclean stop would lose acknowledged entries",
                ),
                rule(
                    "self.tls.mode != 'Off' || !has(self.authentication) || "
                    "!('tls' in self.authentication.mechanisms)",
                    "authentication.mechanisms has tls, which needs a tls.mode other than Off",
                ),
                rule(
                    "self.tls.mode != 'Off' || !has(self.metadata.connect) || "
                    "!self.metadata.connect.startsWith('zks://')",
                    "metadata.connect is zks://, which needs a tls.mode other than Off",
                ),
            ]
        }
    )

    image: LongText = "bookie-operator/bookie:0.2.0"
    """Image of the bookies; the local platform runs this installation instead."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When images are pulled: `Always`, `IfNotPresent` or `Never`."""
    image_pull_secrets: Annotated[tuple[ShortText, ...], Field(max_length=8)] = ()
    """Names of secrets of the namespace with which images are pulled, for every pod of the
    cluster."""
    replicas: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 3
    """How many bookies there are, `bookie-0` to `bookie-N`; at least `quorum.ensemble`, better one
    more. Lowered, the bookie with the highest number is drained and leaves; `excludedOrdinals`
    names another one."""
    excluded_ordinals: Annotated[
        tuple[Ordinal, ...],
        Field(
            max_length=REPLICAS_MAX - 1,
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = ()
    """Numbers that no bookie has: with 4 replicas, [1] means bookies 0, 2, 3 and 4. The bookie of a
    number that is added is drained and leaves, as after lower replicas; one that is away for good
    leaves once others hold what it held. With unchanged replicas a new one joins at the end. Taken
    out of the list, a number comes back as a bookie like any other."""
    resources: PodResources = PodResources(requests={"cpu": "50m", "memory": "256Mi"})
    """Of a bookie's pod."""
    scheduling: Scheduling = Scheduling()
    """Where bookies may run."""
    rack_topology_key: ShortText = "topology.kubernetes.io/zone"
    """Label of nodes whose value is the rack of the bookies there: `eu-1a` makes rack `/eu-1a`,
    which they register. Copies of an entry go to several racks where there are several, and an
    audit reports those that do not. Changed, it restarts nobody. Empty: no bookie has a rack."""
    lost_bookie_delay_seconds: Annotated[int, Field(ge=0, le=30 * 86400)] = 3600
    """A bookie that is not registered for so long is taken for lost: its ledgers get other members,
    and whatever keeps it away, it may come back later. At most `quorum.ack` - 1 are at once, one
    where that is 0; with more away a person is asked. 0: never by itself."""
    quorum: Quorum = Quorum()
    """Sizes that the cluster's ledgers use."""
    metadata: Metadata = Metadata(embedded=EmbeddedMetadata())
    """Where ledgers are known: a ZooKeeper of the cluster's own, or another one. It cannot
    change."""
    storage: Storage
    """Volumes of each bookie."""
    cookie_fix: CookieFix = CookieFix()
    """What happens when a bookie comes back with a replaced or wiped disk."""
    repair: Repair = Repair()
    """How repairs and other jobs run."""
    audit: Audit = Audit()
    """When every copy is asked for, and what becomes of what is missing."""
    scrub: Scrub = Scrub()
    """When every copy is read and its digest verified."""
    task_history_limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """BookieTasks that have ended and are kept: of more, those that ended first are deleted, even
    before their `ttlSecondsAfterFinished` is over."""
    bookie_pod: PodOverlay | None = None
    """What is added to the pods of bookies; absent: nothing."""
    zookeeper_pod: PodOverlay | None = None
    """What is added to the pod of the embedded ZooKeeper, from its next start on. Absent:
    nothing."""
    job_pod: PodOverlay | None = None
    """What is added to the pods of repairs, audits and other jobs, but not to Spark's executors.
    Absent: nothing."""
    executor_pod: PodOverlay | None = None
    """What is added to the pods of Spark's executors (engine spark-kubernetes). Absent: nothing."""
    external: External | None = None
    """How clients outside of the Kubernetes cluster reach the bookies; absent: they do not. When it
    changes, nobody restarts. The local platform has no use for it."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who may reach the pods of the cluster over the network. The local platform has no use for
    it."""
    tls: Tls = Tls()
    """Certificates of everybody in the cluster, and what the bookies' ports take."""
    authentication: Authentication | None = None
    """What BookKeeper's own clients must show on the stock port; absent: no more than TLS asks
    for."""
    retention: Retention = Retention()
    """Which volumes stay when their bookie or cluster goes."""
    grace_period_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """Time a stopping bookie gets to flush before it is killed (which makes the stop unclean)."""
    rollout: Rollout = Rollout()
    """How changed settings and images reach the bookies."""
    paused: bool = False
    """True: the operator observes and reports, and changes nothing; bookies serve, and drop no
    deleted ledger."""
    restarted_at: ShortText = ""
    """Change it, and every bookie is restarted, one after the other and within the loss budget, as
    for a new image. Any text will do; a time is usual, such as 2026-11-25T08:00:00Z."""

    @field_validator("excluded_ordinals")
    @classmethod
    def _different(cls, ordinals: tuple[int, ...]) -> tuple[int, ...]:
        twice = sorted({number for number in ordinals if ordinals.count(number) > 1})
        if twice:
            raise ValueError(f"found {', '.join(map(str, twice))} twice, expected each number once")
        return ordinals

    @model_validator(mode="after")
    def _has_numbers(self) -> Self:
        count = len(self.excluded_ordinals)
        if self.replicas + count > REPLICAS_MAX:
            raise ValueError(
                f"excludedOrdinals: found {count} numbers beside {self.replicas} replicas, "
                f"expected at most {REPLICAS_MAX} together: numbers of bookies end at "
                f"{REPLICAS_MAX - 1}"
            )
        return self

    @model_validator(mode="after")
    def _has_certificates(self) -> Self:
        if self.tls.mode is not TlsMode.OFF:
            return self
        asked = self.authentication.mechanisms if self.authentication is not None else ()
        if Mechanism.TLS in asked:
            raise ValueError(
                "authentication.mechanisms: found tls, expected a tls.mode other than Off with it"
            )
        if self.metadata.connect is not None and self.metadata.connect.startswith("zks://"):
            raise ValueError(
                "metadata.connect: found zks://, expected a tls.mode other than Off with it"
            )
        return self

    @model_validator(mode="after")
    def _survives_one_loss(self) -> Self:
        if self.replicas < self.quorum.ensemble:
            raise ValueError(
                f"replicas: found {self.replicas}, expected at least quorum.ensemble "
                f"({self.quorum.ensemble}): no ledger could be created"
            )
        if not self.journal_write_data and self.ack is AckMode.MEMORY and self.quorum.ack < 2:
            raise ValueError(
                f"quorum.ack: found {self.quorum.ack}, expected at least 2 with journalWriteData "
                "false and ack memory: one unclean stop would lose acknowledged entries (or set "
                "ack: sync, or journalWriteData: true)"
            )
        return self

    @property
    def pod(self) -> str:
        """What of a bookie's pod the platform decides, as JSON without defaults.

        Without them, a later version's new fields change no revision, and so restart nothing.
        """
        parts = {"image_pull_policy", "image_pull_secrets", "resources", "scheduling"}
        parts |= {"grace_period_seconds", "restarted_at", "bookie_pod"}
        return self.model_dump_json(by_alias=True, exclude_defaults=True, include=parts)

    @property
    def options(self) -> BookieOptions:
        """The options alone: specs that differ elsewhere have equal ones."""
        return BookieOptions(**{name: getattr(self, name) for name in BookieOptions.model_fields})

    def is_held_back(self, bookie_id: BookieId) -> bool:
        """`rollout.partition` keeps it at the settings that it runs with."""
        return bookie_id in map(bookie_name, range(self.rollout.partition))

    @property
    def bookie_ids(self) -> tuple[BookieId, ...]:
        """The bookies that are wanted, lowest number first."""
        excluded = set(self.excluded_ordinals)
        free = (number for number in itertools.count() if number not in excluded)
        return tuple(map(bookie_name, itertools.islice(free, self.replicas)))

    def replicas_for(self, ordinal: int) -> int:
        """How many replicas there must be at least for a bookie of this number, were it not
        excluded."""
        return ordinal + 1 - sum(number < ordinal for number in self.excluded_ordinals)


class BookieCluster(Resource):
    """A fleet of bookies with one metadata store, as the API server stores it."""

    api_version: Literal["bookkeeper.bookie-operator.dev/v1alpha1"] = API_VERSION
    """Version of this format."""
    kind: Literal["BookieCluster"] = "BookieCluster"
    """Always BookieCluster."""
    metadata: ObjectMeta
    """Name, namespace and the rest of Kubernetes' object metadata."""
    spec: ClusterSpec
    """What is wanted; only `storage` has no default."""
    status: ClusterStatus = ClusterStatus()
    """What the operator concluded; it alone writes it."""


def check_transition(old: ClusterSpec, new: ClusterSpec) -> None:
    """Raise ManifestError unless a live cluster may go from `old` to `new` (CEL has the same)."""
    mistakes = []
    before = [f"{disk.name}/{disk.role.value}" for disk in old.storage.disks]
    after = [f"{disk.name}/{disk.role.value}" for disk in new.storage.disks]
    if before != after:
        mistakes.append(
            f"spec.storage.disks: found {', '.join(after)}; expected {', '.join(before)} as the "
            "cluster was created: number, order, name and role of disks cannot change"
        )
    else:
        for index, (was, wanted) in enumerate(
            zip(old.storage.disks, new.storage.disks, strict=True)
        ):
            if size_bytes(wanted.size) < size_bytes(was.size):
                mistakes.append(
                    f"spec.storage.disks[{index}].size: found {wanted.size}, expected at least "
                    f"{was.size}: a disk can only grow"
                )
    was_own, own = old.metadata.embedded, new.metadata.embedded
    if was_own is not None and own is not None and not _may_become(was_own, own):
        mistakes.append(
            f"spec.metadata.embedded: found {_volume(own)}, expected at least {_volume(was_own)} "
            "as its volume was made: it can only grow, and its class cannot change"
        )
    if old.metadata.connect != new.metadata.connect:
        mistakes.append(
            "spec.metadata: found another metadata store than the cluster was created with; "
            "expected the same: its ledgers are known only there"
        )
    mistakes += tls_mistakes(old.tls, new.tls)
    if mistakes:
        raise ManifestError("\n".join(mistakes))


def _may_become(was: EmbeddedMetadata, wanted: EmbeddedMetadata) -> bool:
    is_smaller = size_bytes(wanted.size) < size_bytes(was.size)
    return not is_smaller and wanted.storage_class == was.storage_class


def _volume(embedded: EmbeddedMetadata) -> str:
    return f"{embedded.size} of class {embedded.storage_class or '(default)'}"
