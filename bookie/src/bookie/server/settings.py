"""Settings of one bookie: a YAML file, overridden by environment variables, and checked at the
start.

Keys are camelCase. `BOOKIE_<SECTION>__<KEY>` overrides one value (`BOOKIE_DURABILITY__ACK=sync`,
`BOOKIE_PORTS__RUN=0`); sections and keys are matched without regard to case. Every wrong value is a
SettingsError that names the setting, what was found and what is expected.
"""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from bookie.boot.claim import outlasts_s
from bookie.errors import SettingsError
from bookie.hosts import loopback
from bookie.metadata.opening import check_url
from bookie.pods import ADVERTISED_FILE, RACK_FILE
from bookie.server.advertised import PROTOCOLS, endpoints_of
from bookie.server.rack import RACK, RACK_BYTES_MAX
from bookie.storage.modes import DurabilityMode
from bookie.yaml_text import YAML_CHARACTERS_MAX, parse_yaml

ENVIRONMENT_PREFIX = "BOOKIE_"
KIB = 1024
MIB = 1024 * KIB
LEASE_TRIES_MIN = 3
"""A lease must be at least this many times as long as the interval between confirmations."""


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, validate_default=True
    )


class Ports(_Section):
    """TCP ports; 0 = any free port, which the bookie writes to `runtimeFile`. `stock`, for
    BookKeeper's own clients, may be null: then there is no such port.
    """

    run: Annotated[int, Field(ge=0, le=65535)] = 3182
    stock: Annotated[int, Field(ge=0, le=65535)] | None = 3181
    admin: Annotated[int, Field(ge=0, le=65535)] = 3183
    http: Annotated[int, Field(ge=0, le=65535)] = 8080


class Directory(_Section):
    """One directory, on a disk of its own. `volumeUid` is the volume's id on the platform."""

    directory: Path
    volume_uid: str = ""


class Durability(_Section):
    """When the bookie acknowledges an add; see `storage.modes`."""

    journal_write_data: bool = True
    ack: Literal["memory", "sync"] = "memory"
    flush_interval_seconds: PositiveFloat = 10.0
    note_idle_flushes: PositiveInt | None = 2
    """With `ack: memory`: for how many checkpoints in a row a ledger must be idle before a crash
    leaves it out of doubt. Its next add then waits for one sync of the journal. `null`: a crash
    puts every ledger in doubt, as is right for disks that lie about syncs."""

    @property
    def mode(self) -> DurabilityMode:
        if self.journal_write_data:
            return DurabilityMode.JOURNAL
        return DurabilityMode.SYNC if self.ack == "sync" else DurabilityMode.MEMORY


class CookieFix(_Section):
    """Who decides after a disk was replaced: the bookie, a person, or nobody."""

    policy: Literal["Auto", "Approve", "Never"] = "Auto"


class StorageOptions(_Section):
    """Sizes of a ledger directory's log and memory, in bytes, and how often the bookie maintains
    it.
    """

    ring_bytes: Annotated[int, Field(ge=12 * MIB, le=1024 * MIB)] = 32 * MIB
    log_file_bytes: Annotated[int, Field(ge=16 * MIB, le=4096 * MIB)] = 128 * MIB
    direct_io: Literal["auto", "on", "off"] = "auto"
    compaction_interval_seconds: PositiveFloat = 60.0
    compaction_bytes_per_second_busy: PositiveInt = 8 * MIB
    """How much compaction copies while normal adds arrive; without them it copies as fast as it
    can."""
    collect_interval_seconds: PositiveFloat = 60.0
    collect_grace_seconds: PositiveFloat = 900.0
    """The bookie drops a deleted ledger's entries when two looks this far apart have missed it."""
    collect_share_max: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Share of this bookie's ledgers: if a collection would drop more at once, a person must
    approve it."""
    collect_brake_from: PositiveInt = 20
    """Fewer ledgers than this need no approval, however large a share they are."""


class Limits(_Section):
    """Limits for what clients may ask of this bookie at once."""

    connections: PositiveInt = 4096
    read_threads: Annotated[int, Field(ge=1, le=64)] = 4
    reads_in_flight: PositiveInt = 256
    reply_bytes: Annotated[int, Field(ge=16 * MIB)] = 64 * MIB
    """Bytes of replies to reads, over all connections, that are being read or that clients have not
    taken."""
    reply_bytes_per_connection: Annotated[int, Field(ge=8 * MIB)] = 16 * MIB
    reply_seconds: PositiveFloat = 30.0
    """A client that does not receive a reply for so long loses its connection."""
    request_bytes: Annotated[int, Field(ge=16 * MIB)] = 256 * MIB
    """Bytes that clients of the data ports have sent as incomplete messages; beyond it the bookie
    cuts off the clients whose message has been incomplete for the longest time."""
    request_seconds: PositiveFloat = 60.0
    """How long a client may take for one message before its connection is cut off."""
    control_connections: PositiveInt = 256
    """Connections to the control plane."""
    control_calls: PositiveInt = 64
    """Calls of the control plane at once; each may be as large as a message may."""
    http_connections: PositiveInt = 64
    http_seconds: PositiveFloat = 30.0
    """The bookie closes a connection to the HTTP port that has had no answer for so long."""
    recovery_bytes_per_second_busy: PositiveInt = 8 * MIB
    """How fast the bookie answers recovery adds (of repairs and recoveries) while normal adds
    arrive."""


class Lease(_Section):
    """The right of this process to answer as its bookie; see `server.lease`.

    `seconds`: how long it lasts without a confirmation; set it longer than an ordinary outage of
    the metadata store. `confirm_seconds`: the time between two confirmations.
    """

    seconds: PositiveFloat = 75.0
    confirm_seconds: PositiveFloat = 5.0

    @model_validator(mode="after")
    def _lasts_for_several_tries(self) -> "Lease":
        if self.seconds < LEASE_TRIES_MIN * self.confirm_seconds:
            raise ValueError(
                f"seconds is {self.seconds:g}, expected at least {LEASE_TRIES_MIN} times "
                f"confirmSeconds ({self.confirm_seconds:g})"
            )
        return self

    @property
    def wait_s(self) -> float:
        """How many seconds another process waits for this lease to end."""
        return outlasts_s(self.seconds)


class Tls(_Section):
    """TLS on the ports of this bookie; see docs/security.md.

    `directory`: the folder of its credentials, `tls.crt`, `tls.key` and `ca.crt`. `mode`: whether
    the data ports also take clients without TLS; the control plane never does. `clients`: whether
    clients of the data ports must show a certificate. `handshake_seconds`: how long a handshake may
    take. `http`: whether the HTTP port is under TLS, too.
    """

    directory: Path
    mode: Literal["Required", "Accepted"] = "Required"
    clients: Literal["required", "optional", "none"] = "required"
    handshake_seconds: PositiveFloat = 10.0
    http: bool = False


AuthenticationName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._@-]+$", max_length=255)
]


class ZooKeeper(_Section):
    """The session with ZooKeeper. `credentials_file`: a YAML file with scheme, user and password of
    a ZooKeeper user; null: the session logs in as no user.
    """

    credentials_file: Path | None = None


ServicePrincipal = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9.:_-]+@[A-Za-z0-9._-]+$")
]
"""The complete name of a principal, so that neither DNS nor Kerberos' configuration decides who a
bookie is."""


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression ({error})") from error
    return text


class Authentication(_Section):
    """How stock clients must authenticate before they may send requests, as in BookKeeper.

    `mechanisms`: the ways to authenticate, each of which suffices: `tls`, a certificate that
    section `tls` verifies; `digest-md5`, a user's password by SASL; `gssapi`, a Kerberos ticket by
    SASL. `users_file`: a file with one line `name:realm:key` for each user, as `htdigest` writes
    it. `realm`, `service_name`: the names by which clients with a password know this cluster;
    Apache's clients know only the defaults. `keytab`: the file with the key of `principal`, for
    which clients ask a ticket, `bookkeeper/HOST@REALM`. `client_principals`: a regular expression
    that must match the whole principal of a client; null: principals of that realm with
    `bookkeeper` in their name. `replay_cache`: the file of used tickets; null: Kerberos' own.
    `login_seconds`: how long a connection may take to authenticate itself.
    `unauthenticated_connections`: how many connections may be unauthenticated at a time; with one
    more, the one that has waited longest is cut off.
    """

    mechanisms: Annotated[tuple[Literal["tls", "digest-md5", "gssapi"], ...], Field(min_length=1)]
    users_file: Path | None = None
    realm: AuthenticationName = "bookkeeper"
    service_name: AuthenticationName = "bookkeeper"
    keytab: Path | None = None
    principal: ServicePrincipal | None = None
    client_principals: Annotated[str, AfterValidator(_regex)] | None = None
    replay_cache: Path | None = None
    login_seconds: PositiveFloat = 10.0
    unauthenticated_connections: PositiveInt = 1024

    @model_validator(mode="after")
    def _users_are_somewhere(self) -> "Authentication":
        if "digest-md5" in self.mechanisms and self.users_file is None:
            raise ValueError("usersFile is missing, expected with mechanism digest-md5")
        return self

    @model_validator(mode="after")
    def _tickets_can_be_read(self) -> "Authentication":
        if "gssapi" in self.mechanisms:
            if self.keytab is None:
                raise ValueError("keytab is missing, expected with mechanism gssapi")
            if self.principal is None:
                raise ValueError(
                    "principal is missing, expected with mechanism gssapi: bookkeeper/HOST@REALM, "
                    "where HOST is the name by which clients find this bookie"
                )
        return self

    @property
    def allowed_principals(self) -> str:
        """The regular expression for principals of clients. If it is not set, Apache's bookies let
        in every principal with `bookkeeper` in its name; this bookie also requires its own realm.
        """
        if self.client_principals is not None:
            return self.client_principals
        assert self.principal is not None
        return "[^@]*bookkeeper[^@]*@" + re.escape(self.principal.rpartition("@")[2])


def _metadata_url(url: str) -> str:
    try:
        check_url(url)
    except SettingsError as error:
        raise ValueError(str(error)) from error
    return url


def _addresses(named: dict[str, str]) -> dict[str, str]:
    unknown = sorted(named.keys() - PROTOCOLS.keys())
    if unknown:
        raise ValueError(f"unknown port {unknown[0]}, expected {' or '.join(PROTOCOLS)}")
    endpoints_of(named)
    return named


BookieName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$", max_length=253)
]


RackName = Annotated[
    str, StringConstraints(pattern=rf"^{RACK.pattern}$", max_length=RACK_BYTES_MAX)
]


class BookieSettings(_Section):
    """All settings of one `bookie serve`.

    `host`: the name, or the IPv4 or IPv6 address without brackets, under which clients find the
    bookie in the registration. `bind`: the address to listen on, the host when None; `0.0.0.0` or
    `::` means every address of the machine, of both families. `rack`: its network location, such as
    `/rack-a`; without it the content of `rackFile`, which may appear and change while the bookie
    serves. `advertised`: the addresses at which clients elsewhere reach it, `stock` and `run`, each
    as `host:port`; without it the content of `advertisedFile`. `authentication`: how stock clients
    authenticate; without it every client that reaches the port may ask.
    """

    bookie_id: BookieName
    metadata: Annotated[str, AfterValidator(_metadata_url)]
    host: str = Field(default_factory=loopback)
    bind: str | None = None
    ports: Ports = Ports()
    journal: Directory
    ledgers: Annotated[tuple[Directory, ...], Field(min_length=1, max_length=64)]
    durability: Durability = Durability()
    cookie_fix: CookieFix = CookieFix()
    storage: StorageOptions = StorageOptions()
    limits: Limits = Limits()
    lease: Lease = Lease()
    zookeeper: ZooKeeper = ZooKeeper()
    tls: Tls | None = None
    authentication: Authentication | None = None
    rack: RackName | None = None
    rack_file: Path = Path(RACK_FILE)
    advertised: Annotated[dict[str, str], AfterValidator(_addresses)] = Field(default_factory=dict)
    advertised_file: Path = Path(ADVERTISED_FILE)
    runtime_file: Path | None = None

    @model_validator(mode="after")
    def _directories_differ(self) -> "BookieSettings":
        paths = [self.journal.directory, *(disk.directory for disk in self.ledgers)]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"directory {path} is named twice; every disk has its own")
        return self

    @model_validator(mode="after")
    def _advertised_ports_are_open(self) -> "BookieSettings":
        if "stock" in self.advertised and self.ports.stock is None:
            raise ValueError("advertised.stock is given, expected none while ports.stock is null")
        return self

    @model_validator(mode="after")
    def _certificates_are_verified(self) -> "BookieSettings":
        wants = self.authentication is not None and "tls" in self.authentication.mechanisms
        if wants and (self.tls is None or self.tls.clients == "none"):
            raise ValueError(
                "authentication.mechanisms has tls, expected a section tls whose clients are "
                "required or optional"
            )
        return self

    @property
    def bind_host(self) -> str:
        return self.bind or self.host


def load_settings(path: Path, environment: Mapping[str, str]) -> BookieSettings:
    """Load the file and apply the environment's overrides; SettingsError says what is wrong."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(YAML_CHARACTERS_MAX + 1)
    except OSError as error:
        raise SettingsError(f"cannot read settings {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not valid YAML: it is no UTF-8") from error
    tree = _yaml_value(text, source=str(path))
    if not isinstance(tree, dict):
        raise SettingsError(f"{path} must hold a mapping of settings, found {type(tree).__name__}")
    apply_environment(tree, environment)
    return parse_settings(tree, source=str(path))


def parse_settings(tree: Mapping[str, Any], *, source: str) -> BookieSettings:
    """Check a parsed mapping; one SettingsError names every mistake in it."""
    try:
        return BookieSettings.model_validate(tree)
    except ValidationError as error:
        lines = [_sentence(dict(mistake)) for mistake in error.errors()]
        raise SettingsError(f"{source}: " + "; ".join(lines)) from error


def apply_environment(tree: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Put `BOOKIE_<SECTION>__<KEY>` values into the tree, in place; values are read as YAML."""
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        *sections, key = name.removeprefix(ENVIRONMENT_PREFIX).split("__")
        model: Any = BookieSettings
        node = tree
        for section in sections:
            field = _field(model, section, variable=name)
            model = _section_of(model.model_fields[field].annotation)
            node = node.setdefault(to_camel(field), {})
            if not isinstance(node, dict) or model is None:
                raise SettingsError(f"environment variable {name}: {section} has no keys inside")
        node[to_camel(_field(model, key, variable=name))] = _yaml_value(
            environment[name], source=f"environment variable {name}"
        )


def _yaml_value(text: str, *, source: str) -> Any:
    """Parse the one YAML value in a text; None for an empty text."""
    try:
        documents = parse_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{source} is not valid YAML: {error}") from error
    if len(documents) > 1:
        raise SettingsError(f"{source} holds {len(documents)} documents of YAML, expected one")
    return documents[0] if documents else None


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """The section class that a field holds, also as an optional or in a tuple; None when it holds
    none.
    """
    for held in (annotation, *get_args(annotation)):
        if isinstance(held, type) and issubclass(held, BaseModel):
            return held
    return None


def _field(model: Any, name: str, *, variable: str) -> str:
    wanted = name.replace("_", "").lower()
    known = {field.replace("_", ""): field for field in model.model_fields}
    if wanted not in known:
        raise SettingsError(
            f"environment variable {variable}: unknown setting {name}{_nearest(wanted, known)}"
        )
    return str(known[wanted])


def _sentence(mistake: dict[str, Any]) -> str:
    where = ".".join(map(str, mistake["loc"])) or "settings"
    if mistake["type"] == "extra_forbidden":
        names = _names_beside(mistake["loc"])
        return f"unknown setting {where}{_nearest(str(mistake['loc'][-1]), names)}"
    if mistake["type"] == "missing":
        return f"{where} is missing"
    message = re.sub(r"^Value error, ", "", mistake["msg"])
    return f"{where}: {message[0].lower() + message[1:]}, found {mistake['input']!r:.100}"


def _names_beside(location: tuple[int | str, ...]) -> list[str]:
    model: Any = BookieSettings
    for part in location[:-1]:
        if isinstance(part, int):
            model = Directory
            continue
        fields = {to_camel(name): field for name, field in model.model_fields.items()}
        model = _section_of(fields[part].annotation) if part in fields else model
    return [to_camel(name) for name in getattr(model, "model_fields", {})] or ["directory"]


def _nearest(name: str, known: Any) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else f"; known are {', '.join(names)}"
