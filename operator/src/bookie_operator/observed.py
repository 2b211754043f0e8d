"""What the operator saw in one pass, as frozen values: the planner's only view of the world.

`observe.py` fills them from a platform, the metadata store and the bookies' control planes. None
means "not known", and is never read as "not there".
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from bookie.ids import BookieId
from bookie.wire.admin.health import Health

from bookie_operator.model.reports import Report
from bookie_operator.model.task import BookieTask
from bookie_operator.model.tls import TlsMode
from bookie_operator.tls_view import TlsView

ReportType = TypeVar("ReportType", bound=Report)
STEADY: Final = timedelta(seconds=60)
"""A process that runs this long is no longer counted as ending in a row."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the last process of a bookie ended, as far as the platform knows; raises suspicion only.

    `code` is negative for a signal, None when nobody could collect it. `lasted`: how long it ran.
    """

    at: datetime
    code: int | None
    reason: str
    lasted: timedelta | None = None
    is_planned: bool = False
    """Somebody had asked for it: the operator, an eviction, a person."""

    @property
    def is_graceful(self) -> bool:
        """No failure: it was asked to stop, and did."""
        return self.is_planned or self.code == 0


@dataclass(frozen=True, slots=True)
class Process:
    """One process (or container) of a bookie, or the intent to run one.

    `instance` names this very run: a process, or `<pod uid>.<restart count>`.
    """

    instance: str
    running: bool
    revision: str
    restarts: int = 0
    started_at: datetime | None = None
    last_exit: Exit | None = None
    control: str | None = None
    is_ready: bool = True
    """Whether the platform counts it as ready, as a disruption budget does."""
    waiting: str = ""
    """Why it has not started, `Reason: message` (ImagePullBackOff, Unschedulable, ...)."""
    pod: str = ""
    """Identity of the pod around the container; it changes when the pod is replaced."""
    node: str = ""
    node_boot_id: str = ""
    """Changes when the node itself was restarted."""
    node_trouble: str = ""
    """Why nothing on its node can be relied on: `is gone`, `is not ready: ...`. Empty = none."""
    rack: str = ""
    """Its rack, from the labels of its node; empty = not known."""
    advertised: str = ""
    """Addresses for clients outside of the Kubernetes cluster, `stock=host:port run=host:port`;
    empty = none, or not known yet."""
    tls: TlsMode = TlsMode.OFF
    """How this process was started; unless it is Off, its control plane requires TLS."""

    @property
    def has_tls(self) -> bool:
        return self.tls is not TlsMode.OFF


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume of a bookie: the claim, not what lies on it. `size` as requested now, if known."""

    disk: str
    uid: str
    size: str = ""
    is_terminating: bool = False
    storage_class: str = ""
    """Empty = not known."""


@dataclass(frozen=True, slots=True)
class Bookie:
    """One bookie: platform's view, its own view, and whether it is registered for writes."""

    id: BookieId
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    process: Process | None = None
    health: Health | None = None
    is_writable: bool = False
    is_registered: bool = False
    """Whether it is registered in the metadata store, writable or read-only, so that clients find
    it."""
    has_cookie: bool | None = None
    """Whether metadata knows it, asked of bookies that are to leave; None = not known."""
    waiting: str = ""
    """Why it has no process, `Reason: message`, in the platform's words; empty = not known."""


@dataclass(frozen=True, slots=True)
class LeftOver:
    """What is left of a bookie that the platform no longer runs."""

    claims: tuple[str, ...] = ()
    """Names of the volume claims that were kept when it left."""
    has_cookie: bool | None = None
    """Whether metadata knows it; None = not known."""


class JobKind(StrEnum):
    REPAIR = "repair"
    AUDIT = "audit"
    SCRUB = "scrub"
    ACCEPT_LOSS = "accept-loss"
    RETRACT_LOSS = "retract-loss"
    DRAIN = "drain"
    REREPLICATE = "rereplicate"
    MEND = "mend"
    """A repair of every ledger, also of ledgers that are not in limbo."""
    INDEX_REBUILD = "index-rebuild"
    """Rebuilds indexes on the disks of a bookie whose process is stopped."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of the repair library, running or ended. `exit_code` None = not known."""

    name: str
    kind: JobKind
    attempt: int
    running: bool
    started_at: datetime
    bookie: BookieId | None = None
    boot_epoch: int = 0
    ended_at: datetime | None = None
    exit_code: int | None = None
    message: str = ""
    report: Report | None = None
    """Its result; None while it runs, or if it left none."""
    waiting: str = ""
    """Why its process has not started, `Reason: message`."""
    progress: str = ""
    """How far it is while it runs, as it reports (`bookie.progress`); empty = not known."""

    def reported(self, kind: type[ReportType]) -> ReportType | None:
        """Its report, if it is one of this kind."""
        return self.report if isinstance(self.report, kind) else None


@dataclass(frozen=True, slots=True)
class MetadataView:
    """The metadata store. `instance_id` None while reachable = not initialised."""

    url: str = ""
    reachable: bool = False
    instance_id: str | None = None
    message: str = ""
    is_paused: bool | None = None
    """Whether collection is paused in the store, which bookies check; None = not known."""
    rolled_back: Mapping[BookieId, str] = field(default_factory=dict)
    """What showed bookies that the store was put back to an earlier state, by their records in it.
    A record stays until a person has decided, also while its bookie is silent."""
    known_since: datetime | None = None
    """Since when this operator has found it at every look, without a gap; None: the last look did
    not. Nobody knows who was registered before then."""


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A Secret that the spec names, with what is wrong with it."""

    field: str
    """Field of the spec, such as `authentication.usersSecret`."""
    place: str
    """Where its content is, for people: `key users of Secret stock-users`."""
    reason: str = ""
    """What is wrong, in one word for programs; empty: nothing."""
    message: str = ""
    """What is wrong, in a sentence that shows none of the content."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something wanted that could not be done when it was last tried, `count` times in a row.

    `subject`: the action itself, so that other actions of the same kind are not confused with it.
    """

    subject: Hashable
    action: str
    """The word that people read for it."""
    message: str
    next_at: datetime
    bookie: str = ""
    count: int = 1
    reason: str = ""
    """A condition's word for why."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything, at `now` (UTC)."""

    now: datetime
    metadata: MetadataView
    bookies: Mapping[BookieId, Bookie] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()
    tasks: tuple[BookieTask, ...] = ()
    forbidden: str = ""
    """What the platform refused the operator in the former pass because a permission is missing."""
    failures: tuple[Failure, ...] = ()
    """Actions that failed in former passes."""
    left_over: Mapping[BookieId, LeftOver] = field(default_factory=dict)
    """What is left of bookies that the platform no longer runs."""
    tls: TlsView | None = None
    """Certificates; None: TLS is neither wanted nor in use."""
    secrets: tuple[NamedSecret, ...] = ()
    """The Secrets that the spec names."""

    def bookie(self, bookie_id: BookieId) -> Bookie:
        return self.bookies.get(bookie_id, Bookie(bookie_id))
