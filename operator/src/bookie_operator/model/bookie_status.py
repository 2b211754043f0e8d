"""One bookie in the status of its cluster: its state, its disks, its repair; and limbo of all."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from bookie_operator.model.attempt_status import EngineUse
from bookie_operator.model.base import Count, LongText, ShortText, StatusPart
from bookie_operator.model.undecided import UndecidedStatus

BOOKIES_MAX: Final = 100


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
