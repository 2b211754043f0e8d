"""What the planner may ask for: actions, refusals, events. `apply.py` carries them out.

A destructive action takes something away that it cannot give back (a running process, the old
content of a disk's identity). A pass has at most one of them, and each names what it was planned
for (a process instance, a volume uid), so that it does nothing when that has changed meanwhile.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role

from bookie_operator.model.bookie_options import BookieOptions
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.repair_spec import FixPolicy
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import JobKind


@dataclass(frozen=True, slots=True)
class DiskTemplate:
    name: str
    role: DiskRole
    size: str
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class TlsTemplate:
    """How one bookie is to speak TLS."""

    mode: TlsMode
    """Accepted or Required: one whose ports are plain has no such template."""
    http: bool
    """Whether its HTTP port uses TLS too."""


@dataclass(frozen=True, slots=True)
class AuthenticationTemplate:
    """What a bookie asks BookKeeper's own clients for."""

    mechanisms: tuple[str, ...]
    """Ways in, in the words of the settings."""
    users_secret: str
    """Name of the Secret with the users; empty: passwords are no way in."""


@dataclass(frozen=True, slots=True)
class BookieTemplate:
    """How one bookie is to run. `revision` changes exactly when a running one must be restarted."""

    bookie_id: BookieId
    image: str
    disks: tuple[DiskTemplate, ...]
    options: BookieOptions
    asks_before_cookie_fix: bool
    pod: str = "{}"
    """`ClusterSpec.pod`"""
    tls: TlsTemplate | None = None
    """How its ports use TLS; None: they do not."""
    authentication: AuthenticationTemplate | None = None
    """How stock clients must authenticate; None: only as TLS requires."""
    login_secret: str = ""
    """Name of the Secret with its user of ZooKeeper's; empty: nobody's."""

    @property
    def facts(self) -> dict[str, Any]:
        """All that is given, as JSON types.

        The options stand among the other facts, since revisions and records are older than the
        model that holds them. What nobody has set is left out: a new version of this program with
        one more option restarts no bookie, and the version before it reads the record.
        """
        facts = asdict(self)
        del facts["options"]
        for name in ("tls", "authentication", "login_secret"):
            if not facts[name]:
                del facts[name]
        return facts | self.options.model_dump(mode="json", exclude_none=True)

    @property
    def revision(self) -> str:
        # Sizes are left out: a volume grows under a running bookie.
        facts = self.facts | {"disks": [(disk.name, disk.role) for disk in self.disks]}
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def template_of(spec: ClusterSpec, bookie_id: BookieId) -> BookieTemplate:
    """The wanted form of one bookie.

    A bookie asks before every cookie fix unless the policy is Never: with Auto it is the operator
    that answers, since only the operator sees the whole fleet's losses.
    """
    return BookieTemplate(
        bookie_id=bookie_id,
        image=spec.image,
        disks=tuple(
            DiskTemplate(d.name, d.role, d.size, d.storage_class) for d in spec.storage.disks
        ),
        options=spec.options,
        asks_before_cookie_fix=spec.cookie_fix.policy is not FixPolicy.NEVER,
        pod=spec.pod,
        tls=None if spec.tls.mode is TlsMode.OFF else TlsTemplate(spec.tls.mode, spec.tls.http),
        authentication=_authentication_of(spec),
        login_secret=spec.metadata.credentials_secret or "",
    )


def _authentication_of(spec: ClusterSpec) -> AuthenticationTemplate | None:
    asked = spec.authentication
    if asked is None:
        return None
    mechanisms = tuple(one.value for one in asked.mechanisms)
    return AuthenticationTemplate(mechanisms, asked.users_secret or "")


@dataclass(frozen=True, slots=True)
class InitialiseMetadata:
    """Create the cluster's layout in an empty metadata store."""


@dataclass(frozen=True, slots=True)
class PauseCollection:
    """Tell the bookies whether the cluster is paused, so that they drop no deleted ledger."""

    paused: bool


@dataclass(frozen=True, slots=True)
class CreateVolume:
    bookie_id: BookieId
    disk: DiskTemplate


@dataclass(frozen=True, slots=True)
class StartBookie:
    """Bring up a bookie that has no process, or keep it up as `template` says."""

    template: BookieTemplate
    keeps_settings: bool = False
    """Leave it with its former settings, because a rollout holds the new ones back."""


@dataclass(frozen=True, slots=True)
class RestartBookie:
    """Stop process `instance` gracefully and start it as `template` says. Destructive."""

    template: BookieTemplate
    instance: str
    reason: str
    keeps_settings: bool = False
    """Start it as it was instead: a rollout holds its new settings back."""


@dataclass(frozen=True, slots=True)
class ApproveCookieFix:
    """Let a bookie take its changed disks as its own. Destructive: the old ones are given up.

    `approved_by`: the person who decided; empty = the operator, by the policy of the spec.
    """

    bookie_id: BookieId
    plan_id: str
    approved_by: str = ""


@dataclass(frozen=True, slots=True)
class ApproveCollection:
    """Let a bookie collect the deleted ledgers that its brake holds, by the word of a person."""

    bookie_id: BookieId
    plan_id: str
    approved_by: str


@dataclass(frozen=True, slots=True)
class ReplaceVolume:
    """Stop the bookie gracefully and delete volume `uid`; a new one is created. Destructive."""

    bookie_id: BookieId
    disk: str
    uid: str


@dataclass(frozen=True, slots=True)
class ReplaceBookie:
    """Give up all volumes of a bookie that is away; new ones are created. Destructive."""

    bookie_id: BookieId
    volumes: tuple[tuple[str, str], ...]
    """Disk and uid of each that goes."""
    instance: str
    """The process that was observed; empty: there was none."""
    is_node_lost: bool
    """Nobody can end its pod in good order: it goes by force."""


@dataclass(frozen=True, slots=True)
class ExpandVolume:
    """Let a volume grow under its bookie; what lies on it stays."""

    bookie_id: BookieId
    disk: DiskTemplate


@dataclass(frozen=True, slots=True)
class DrainBookie:
    """Let a bookie take no new entries, since it is to leave; or take them again (`cancel`)."""

    bookie_id: BookieId
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class RemoveBookie:
    """Stop `instance` gracefully and run it no more; nothing is on it. Destructive."""

    bookie_id: BookieId
    instance: str
    delete_volumes: bool
    is_node_lost: bool = False
    """Nobody can end its pod in good order: it goes by force."""


SELECTOR_SHOWN: Final = 100
"""Characters of a selector in a sentence."""


@dataclass(frozen=True, slots=True)
class LossDecision:
    """What a person decided: to close ledgers before the entry that nobody can decide (S33), or to
    take back what is recorded as lost of one. The job's kind says which."""

    ledgers: str
    """One ledger's id, or a selector of several."""
    entry_id: int | None
    """Of one ledger the entry in question, to be sure of what is accepted; None: nobody named
    it."""
    reason: str
    approved_by: str
    is_dry_run: bool = False
    """The job only shows what the decision would do."""

    @property
    def named(self) -> str:
        """`ledger 4`, or as much of a selector as a sentence has room for."""
        if self.ledgers.isdigit():
            return f"ledger {self.ledgers}"
        is_long = len(self.ledgers) > SELECTOR_SHOWN
        return f"ledgers {self.ledgers[:SELECTOR_SHOWN]}{'...' if is_long else ''}"


@dataclass(frozen=True, slots=True)
class StartJob:
    """Create-only: a job of this name that exists already is left as it is.

    `decision`: of a job that carries out a person's, which needs no `engine`. `options`: more words
    for the engine's command line. `disks`: of one that rebuilds indexes: its bookie is stopped
    before. `shows`: whose certificate it has, where that is not the one of all jobs. `asked_by`:
    the tasks that it begins for, empty when it begins without any.
    """

    name: str
    kind: JobKind
    engine: str
    attempt: int
    bookie_id: BookieId | None = None
    boot_epoch: int = 0
    decision: LossDecision | None = None
    options: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    shows: Principal | None = None
    asked_by: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class StopJob:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Take away a finished task that nobody reads any more."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class MakeAuthority:
    """Make an authority of the operator's own."""

    lifetime: timedelta
    keeps: frozenset[str]
    """Fingerprints of authorities that stay trusted beside it."""
    signs: bool
    """It signs at once, since nobody trusts another; else once it is asked to."""


@dataclass(frozen=True, slots=True)
class SignWith:
    """Let the authority sign that everybody trusts by now; the key of the one before is dropped."""

    fingerprint: str


@dataclass(frozen=True, slots=True)
class DropAuthorities:
    """Let nobody trust authorities but these any more: nothing is signed by the others."""

    kept: frozenset[str]
    """Fingerprints of those that stay."""


@dataclass(frozen=True, slots=True)
class IssueCertificate:
    """Sign a new key of one of the fleet."""

    principal: Principal
    hosts: tuple[str, ...]
    """Names and addresses that it is dialled by, beside its own name and loopback."""
    lifetime: timedelta
    authority: str
    """Fingerprint of the authority that this was planned for."""
    reason: str
    """Why, for people."""


@dataclass(frozen=True, slots=True)
class SpreadTrust:
    """Give one of the fleet other authorities to trust; its key and certificate stay."""

    principal: Principal
    authorities: frozenset[str]
    """Fingerprints."""


@dataclass(frozen=True, slots=True)
class WithdrawCertificate:
    """Take away key and certificate of a job that is over."""

    principal: Principal
    reason: str
    """Why, for people."""


CertificateAction = (
    MakeAuthority
    | SignWith
    | DropAuthorities
    | IssueCertificate
    | SpreadTrust
    | WithdrawCertificate
)
Action = (
    InitialiseMetadata
    | PauseCollection
    | CreateVolume
    | StartBookie
    | RestartBookie
    | ApproveCookieFix
    | ApproveCollection
    | ReplaceVolume
    | ReplaceBookie
    | ExpandVolume
    | DrainBookie
    | RemoveBookie
    | StartJob
    | StopJob
    | DeleteTask
    | CertificateAction
)
Destructive = RestartBookie | ApproveCookieFix | ReplaceVolume | ReplaceBookie | RemoveBookie


def candidate_of(action: Destructive) -> BookieId:
    """The bookie that a destructive action takes out of service or changes for good."""
    return action.template.bookie_id if isinstance(action, RestartBookie) else action.bookie_id


def bookie_of(action: Action) -> str:
    """The bookie that an action is about; empty = the whole cluster."""
    match action:
        case StartBookie(template) | RestartBookie(template):
            return template.bookie_id
        case InitialiseMetadata() | PauseCollection() | StopJob() | DeleteTask():
            return ""
        case MakeAuthority() | SignWith() | DropAuthorities():
            return ""
        case IssueCertificate(principal) | SpreadTrust(principal) | WithdrawCertificate(principal):
            return principal.name if principal.role is Role.BOOKIE else ""
        case _:
            return action.bookie_id or ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A wanted action that a predicate refused; shown in `status.blocked`."""

    action: str
    predicate: str
    message: str
    bookie: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something people should read in the events.

    `once`: a key under which the platform tells it at most once, ever, so that it may be recorded
    before the status that remembers it.
    """

    reason: str
    message: str
    bookie: str = ""
    type: Literal["Normal", "Warning"] = "Normal"
    once: str = ""
