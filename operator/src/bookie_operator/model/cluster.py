"""BookieCluster: what a person asks for. Its status is in `status.py`, its CRD in `crd.py`.

Every rule exists twice: as a validator here, whose message names the field, what was found and what
is expected, and as a CEL rule for the API server. `transition.py` has the rules about changes of a
live cluster, `*_spec.py` has sections of the spec.
"""

import itertools
from typing import Annotated, Literal, Self

from bookie.ids import BookieId
from pydantic import ConfigDict, Field, field_validator, model_validator

from bookie_operator.model.audit_spec import Audit, Scrub
from bookie_operator.model.authentication import Authentication, Mechanism
from bookie_operator.model.base import API_VERSION, LongText, ObjectMeta, Resource, ShortText, rule
from bookie_operator.model.bookie_options import AckMode, BookieOptions
from bookie_operator.model.external import External
from bookie_operator.model.metadata_spec import EmbeddedMetadata, Metadata
from bookie_operator.model.network_policy import NetworkPolicies
from bookie_operator.model.pod_options import PodResources, PullPolicy, Scheduling
from bookie_operator.model.pod_overlay import PodOverlay
from bookie_operator.model.quorum import REPLICAS_MAX, Quorum
from bookie_operator.model.repair_spec import CookieFix, Repair
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.storage_spec import Storage
from bookie_operator.model.tls import Tls, TlsMode

Ordinal = Annotated[int, Field(ge=0, le=REPLICAS_MAX - 1)]
"""Number of a bookie, the 2 of `bookie-2`."""


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
