"""BookieCluster: what a person asks for. Its status is in `status.py`, its CRD in `crd.py`.

Every rule exists twice: as a validator here, whose message names the field, what was found and what
is expected, and as a CEL rule for the API server. `check_transition` has the rules about changes of
a live cluster.
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
from bookie_operator.model.bookie_options import AckMode, BookieOptions
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
    """Whether `size` is less than `wanted`; False for a size in a format that we do not write."""
    try:
        return size_bytes(size) < size_bytes(wanted)
    except (KeyError, ValueError):
        return False


class DiskRole(StrEnum):
    JOURNAL = "journal"
    LEDGER = "ledger"


class FixPolicy(StrEnum):
    """Who decides that a bookie may use a replaced disk."""

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
"""A quantity such as `50m`, `1` (also as a number) or `256Mi`. A wrong one is refused here; in a
pod template it would only be found when the pod cannot be created."""
Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]
Labels = Annotated[dict[str, ShortText], Field(max_length=32)]
Ordinal = Annotated[int, Field(ge=0, le=REPLICAS_MAX - 1)]
"""Number of a bookie, the 2 of `bookie-2`."""


class PodResources(Resource):
    """CPU and memory that a pod requests, and its limits; without limits it has none."""

    requests: Quantities = Field(default_factory=dict)
    """How much the scheduler reserves for the pod, by resource, such as `cpu: 50m` or `memory:
    256Mi`."""
    limits: Quantities = Field(default_factory=dict)
    """How much the pod may use at most, by resource. A bookie that exceeds its memory limit is
    killed, which is an unclean stop."""


class Toleration(Resource):
    """A taint of nodes that the pods tolerate, with the fields of a pod's toleration."""

    key: ShortText = ""
    """Key of the taint. Empty, with operator Exists: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """`Equal`: the taint's value must be `value`; `Exists`: any value."""
    value: ShortText = ""
    """Value of the taint, with operator Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Effect of the taint that is tolerated: NoSchedule, PreferNoSchedule or NoExecute. Empty:
    every effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """With effect NoExecute: how long the pod may stay on such a node, in seconds. Absent: without
    limit."""


class Scheduling(Resource):
    """On which nodes bookies may run; `topologyKey` keeps them apart from each other."""

    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have, such as `disktype: ssd`. Empty: bookies may run on every
    node."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints of nodes that bookies tolerate, and jobs that need bookies' volumes."""
    topology_key: ShortText = "kubernetes.io/hostname"
    """Label of nodes that keeps bookies apart: two bookies should not run on nodes with the same
    value. By default they should not run on the same node."""
    required: bool = False
    """True: two bookies never run on nodes with the same value of `topologyKey`, even if one must
    wait. False: this is only preferred."""
    priority_class_name: ShortText = ""
    """Name of a PriorityClass for bookies. Empty: the default priority of the Kubernetes
    cluster."""


class Disk(Resource):
    """A volume that every bookie has. Name, role and order cannot change."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=20)]
    """Name of the disk: a DNS label of at most 20 characters, such as `ledger-0`. It is part of the
    name of the volume claim."""
    role: DiskRole
    """`journal` or `ledger`. A bookie has exactly one journal and one or more ledger disks."""
    size: Size = "10Gi"
    """Size of the volume, such as `10Gi`. It can grow but not shrink."""
    storage_class: ShortText = ""
    """Storage class of the volume. Empty: the default class of the Kubernetes cluster. A change
    affects only volumes that are made later; `status.blocked` names volumes of another class."""


class Storage(Resource):
    """Volumes on which each bookie stores its data."""

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
    order, names and roles cannot change, since they determine which disk holds a ledger."""

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
    """A ZooKeeper that the operator runs for this cluster: one server, not an ensemble."""

    size: Size = "1Gi"
    """Size of its volume. It can grow but not shrink."""
    storage_class: ShortText = ""
    """Storage class of its volume; it cannot change. Empty: the default class of the Kubernetes
    cluster."""
    resources: PodResources = PodResources(requests={"cpu": "50m", "memory": "256Mi"})
    """CPU and memory of ZooKeeper's pod; its heap is 128 MB."""


class Metadata(Resource):
    """The metadata store, which knows the ledgers: set exactly one of `embedded` and `connect`."""

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
    """Run a ZooKeeper for this cluster; this is the default."""
    connect: (
        Annotated[
            str, StringConstraints(pattern=r"^zks?://[^/,\s]+(,[^/,\s]+)*(/\S+)$", max_length=1024)
        ]
        | None
    ) = None
    """Use an existing ZooKeeper: `zk://host:port[,host:port]/ledgers`, or `zks://` for TLS. It
    cannot change."""
    credentials_secret: SecretName | None = None
    """Secret with a ZooKeeper user under the key `credentials`: YAML with scheme (digest or sasl),
    user and password. From then on only this user may change what the bookies and the operator
    create there. Absent: they have no user."""

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
    """`Auto`: the operator lets a bookie use a replaced disk when the loss budget allows it;
    `Approve`: a person must approve with a BookieTask; `Never`: the bookie refuses to boot."""
    window_seconds: Annotated[int, Field(ge=0, le=7 * 86400)] = 600
    """With policy Auto, a person must approve if disks of more than one bookie changed within this
    many seconds."""


class Repair(Resource):
    """How the jobs run that repair and audit."""

    engine: RepairEngine = RepairEngine.AUTO
    """What does the work of a repair. `inline`: one process; `spark-local`: Spark in the job's pod;
    `spark-kubernetes`: Spark with executor pods; `auto` chooses by the number of ledgers and
    entries."""
    image: LongText = "bookie-operator/repair:0.2.0"
    """Image, with Java, for repairs, audits, other jobs and the embedded ZooKeeper."""
    executors: Annotated[int, Field(ge=1, le=64)] = 2
    """Number of executor pods with engine spark-kubernetes."""
    executor_cpu: Quantity = "100m"
    """CPU that each executor pod requests; it has no CPU limit."""
    executor_memory: Size = "512Mi"
    """Heap of each executor's JVM, `spark.executor.memory`."""
    executor_memory_overhead: Size = "384Mi"
    """Memory for each executor's Python processes, outside of the heap:
    `spark.executor.memoryOverhead`. The pod requests both together, and may use both."""
    resources: PodResources = PodResources(requests={"cpu": "100m", "memory": "1Gi"})
    """CPU and memory of a job's own pod, which is Spark's driver."""
    start_deadline_seconds: Annotated[float, Field(ge=1, le=86400)] = 180.0
    """A job whose pod has not started after this many seconds, for example because its image cannot
    be pulled, counts as failed."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """After this many failed attempts, the condition RepairStalled is set; slow retries
    continue."""
    backoff_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 30.0
    """Seconds to wait after the first failed attempt; the wait doubles after each further one."""
    backoff_max_seconds: Annotated[float, Field(ge=0.1, le=86400)] = 900.0
    """Longest wait between two attempts, in seconds; `backoffSeconds` applies if it is larger."""
    deadline_seconds: Annotated[float, Field(ge=1, le=7 * 86400)] = 3600.0
    """A repair or audit that runs longer than this many seconds is stopped and counts as failed."""


class OnFindings(StrEnum):
    REPAIR = "Repair"
    REPORT = "Report"


class Audit(Resource):
    """An audit compares the copies that bookies say they hold with those that must exist."""

    schedule: Schedule = "@hourly"
    """When audits run: `@hourly`, `@daily`, `@every 30m`, cron in UTC (`0 3 * * *`), or `@never`
    (then only after events that may have left copies missing)."""
    on_findings: OnFindings = OnFindings.REPAIR
    """`Repair`: the operator makes copies again that an audit finds missing or corrupt, once every
    bookie serves; `Report`: it reports them, and repairs them when a person asks."""
    engine: RepairEngine = RepairEngine.AUTO
    """What does the work of an audit: `inline`, `spark-local` and `spark-kubernetes` as in
    `repair.engine`; `auto` chooses by the number of ledgers."""
    recheck_delay_seconds: Annotated[float, Field(ge=0, le=3600)] = 3.0
    """How long an audit waits before it asks bookies again that did not answer, in seconds."""
    underreplicated_grace_seconds: Annotated[float, Field(ge=0, le=30 * 86400)] = 0.0
    """An audit reports a ledger that BookKeeper has marked as under-replicated only when the mark
    is older than this many seconds."""
    min_racks: Annotated[int, Field(ge=1, le=16)] = 2
    """How many racks the copies of an entry must span, if the cluster has that many."""


class Scrub(Resource):
    """A scrub reads every copy, verifies its digest, and replaces corrupt copies by good ones."""

    schedule: Schedule = "@every 7d"
    """When scrubs run: `@daily`, `@every 30d`, cron in UTC (`0 3 * * MON`), or `@never` (then only
    when a BookieTask asks for one)."""
    read_bytes_per_second: Annotated[int, Field(ge=64 * 1024, le=2**40)] = 8 * 1024 * 1024
    """How many bytes per second a scrub reads from each bookie; it shares the disks with
    clients."""
    deadline_seconds: Annotated[float, Field(ge=1, le=30 * 86400)] = 7 * 86400.0
    """A scrub that runs longer than this many seconds is stopped and counts as failed; the next one
    continues where it stopped."""


class Retention(Resource):
    """Whether volumes are kept when their bookie or cluster goes; by default they are."""

    when_deleted: Literal["Retain", "Delete"] = "Retain"
    """`Retain`: volumes stay when the BookieCluster is deleted, and a new BookieCluster of the same
    name uses them again; `Delete`: they are deleted with all data."""
    when_scaled: Literal["Retain", "Delete"] = "Retain"
    """`Retain`: volumes of a bookie that has left stay; `Delete`: they are deleted once no ledger
    names the bookie."""


class Rollout(Resource):
    """How the operator gives changed settings or a new image to the bookies."""

    partition: Annotated[int, Field(ge=0, le=REPLICAS_MAX)] = 0
    """Bookies with a number below this keep their present settings, as in a StatefulSet; 0, the
    default, holds none back. With 3 replicas, 2 gives the new settings only to bookie-2, as a
    canary. The bookie's number counts, even if `excludedOrdinals` leaves out numbers below it. A
    bookie whose volume was replaced starts with the new settings anyway."""


def bookie_name(ordinal: int) -> BookieId:
    return BookieId(f"bookie-{ordinal}")


class ClusterSpec(BookieOptions):
    """The wanted state of one cluster of bookies."""

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
    """Image of the bookies. The local platform ignores it and runs the installed program."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When Kubernetes pulls images: `Always`, `IfNotPresent` or `Never`."""
    image_pull_secrets: Annotated[tuple[ShortText, ...], Field(max_length=8)] = ()
    """Names of Secrets in the namespace with which Kubernetes pulls images, for every pod of the
    cluster."""
    replicas: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 3
    """Number of bookies; at least `quorum.ensemble`, better one more. If you lower it, the bookie
    with the highest number is drained and removed; use `excludedOrdinals` to remove another one."""
    excluded_ordinals: Annotated[
        tuple[Ordinal, ...],
        Field(
            max_length=REPLICAS_MAX - 1,
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = ()
    """Numbers that no bookie has: with 4 replicas, [1] means bookies 0, 2, 3 and 4. If you add a
    number, its bookie is drained and removed; a bookie that is permanently lost is removed once
    other bookies hold its entries. If `replicas` stays the same, a new bookie with the next number
    joins. If you take a number out of the list, a bookie with that number is created again."""
    resources: PodResources = PodResources(requests={"cpu": "50m", "memory": "256Mi"})
    """CPU and memory of a bookie's pod."""
    scheduling: Scheduling = Scheduling()
    """On which nodes bookies may run."""
    rack_topology_key: ShortText = "topology.kubernetes.io/zone"
    """Label of nodes whose value is the rack of the bookies on them: `eu-1a` makes rack `/eu-1a`,
    which they register. Copies of an entry go to several racks if there are several, and an audit
    reports entries whose copies do not. A change restarts no bookie. Empty: no bookie has a
    rack."""
    lost_bookie_delay_seconds: Annotated[int, Field(ge=0, le=30 * 86400)] = 3600
    """A bookie that has not been registered for this many seconds counts as lost: its ledgers get
    other bookies in its place. It may come back later. At most `quorum.ack` - 1 bookies (one if
    that is 0) count as lost at the same time; if more are away, a person must decide. 0: the
    operator never does this by itself."""
    quorum: Quorum = Quorum()
    """Ensemble and quorum sizes that the cluster's ledgers use."""
    metadata: Metadata = Metadata(embedded=EmbeddedMetadata())
    """The metadata store: a ZooKeeper that the operator runs, or an existing one. It cannot
    change."""
    storage: Storage
    """Volumes of each bookie."""
    cookie_fix: CookieFix = CookieFix()
    """What happens when a bookie comes back with a replaced or wiped disk."""
    repair: Repair = Repair()
    """How repairs and other jobs run."""
    audit: Audit = Audit()
    """When audits run, and what happens with copies that they find missing."""
    scrub: Scrub = Scrub()
    """When scrubs read every copy and verify its digest."""
    task_history_limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """How many BookieTasks are kept after they have ended. If there are more, those that ended
    first are deleted, even before their `ttlSecondsAfterFinished` is over."""
    bookie_pod: PodOverlay | None = None
    """Labels, annotations and other fields to add to the pods of bookies. Absent: none."""
    zookeeper_pod: PodOverlay | None = None
    """Fields to add to the pod of the embedded ZooKeeper, from its next start on. Absent: none."""
    job_pod: PodOverlay | None = None
    """Fields to add to the pods of repairs, audits and other jobs, but not to Spark's executors.
    Absent: none."""
    executor_pod: PodOverlay | None = None
    """Fields to add to the pods of Spark's executors (engine spark-kubernetes). Absent: none."""
    external: External | None = None
    """How clients outside of the Kubernetes cluster reach the bookies. Absent: they do not. A
    change restarts no bookie. The local platform ignores it."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who may reach the pods of the cluster over the network. The local platform ignores it."""
    tls: Tls = Tls()
    """Certificates of the cluster's processes, and whether the bookies' ports require TLS."""
    authentication: Authentication | None = None
    """How BookKeeper's own clients must authenticate on the stock port. Absent: only as TLS
    requires."""
    retention: Retention = Retention()
    """Whether volumes stay when their bookie or cluster goes."""
    grace_period_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """Seconds that a stopping bookie may flush before it is killed, which is an unclean stop."""
    rollout: Rollout = Rollout()
    """How the operator gives changed settings and images to the bookies."""
    paused: bool = False
    """True: the operator only observes and reports, and changes nothing. Bookies serve, but remove
    no entries of deleted ledgers."""
    restarted_at: ShortText = ""
    """If you change it, the operator restarts every bookie, one after the other and within the loss
    budget, as for a new image. Any text is allowed; use a time, such as 2026-11-25T08:00:00Z."""

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
        """The parts of the spec that shape a bookie's pod, as JSON without defaults.

        Without defaults, new fields of a later version change no revision, so they restart no
        bookie.
        """
        parts = {"image_pull_policy", "image_pull_secrets", "resources", "scheduling"}
        parts |= {"grace_period_seconds", "restarted_at", "bookie_pod"}
        return self.model_dump_json(by_alias=True, exclude_defaults=True, include=parts)

    @property
    def options(self) -> BookieOptions:
        """The options alone: specs that differ elsewhere have equal ones."""
        return BookieOptions(**{name: getattr(self, name) for name in BookieOptions.model_fields})

    def is_held_back(self, bookie_id: BookieId) -> bool:
        """Whether `rollout.partition` keeps this bookie at its present settings."""
        return bookie_id in map(bookie_name, range(self.rollout.partition))

    @property
    def bookie_ids(self) -> tuple[BookieId, ...]:
        """The bookies that the spec wants, lowest number first."""
        excluded = set(self.excluded_ordinals)
        free = (number for number in itertools.count() if number not in excluded)
        return tuple(map(bookie_name, itertools.islice(free, self.replicas)))

    def replicas_for(self, ordinal: int) -> int:
        """How many replicas there must be at least for a bookie of this number, were it not
        excluded."""
        return ordinal + 1 - sum(number < ordinal for number in self.excluded_ordinals)


class BookieCluster(Resource):
    """A cluster of bookies with one metadata store."""

    api_version: Literal["bookkeeper.bookie-operator.dev/v1alpha1"] = API_VERSION
    """Version of this format."""
    kind: Literal["BookieCluster"] = "BookieCluster"
    """Always BookieCluster."""
    metadata: ObjectMeta
    """Name, namespace and the rest of Kubernetes' object metadata."""
    spec: ClusterSpec
    """The wanted state; only `storage` has no default."""
    status: ClusterStatus = ClusterStatus()
    """The state that the operator observed; only the operator writes it."""


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
