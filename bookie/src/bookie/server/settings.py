"""Settings of one bookie: one YAML file, overridden by environment variables, checked at once.

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
"""Confirmations that may fail, one after another, before a lease runs out."""


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, validate_default=True
    )


class Ports(_Section):
    """TCP ports; 0 = any free one, written to `runtimeFile`. `stock`, for BookKeeper's own clients,
    may be null: then there is none."""

    run: Annotated[int, Field(ge=0, le=65535)] = 3182
    stock: Annotated[int, Field(ge=0, le=65535)] | None = 3181
    admin: Annotated[int, Field(ge=0, le=65535)] = 3183
    http: Annotated[int, Field(ge=0, le=65535)] = 8080


class Directory(_Section):
    """One directory, on a disk of its own; `volumeUid` as the platform knows the volume."""

    directory: Path
    volume_uid: str = ""


class Durability(_Section):
    """When an add is acknowledged; see `storage.modes`."""

    journal_write_data: bool = True
    ack: Literal["memory", "sync"] = "memory"
    flush_interval_seconds: PositiveFloat = 10.0

    @property
    def mode(self) -> DurabilityMode:
        if self.journal_write_data:
            return DurabilityMode.JOURNAL
        return DurabilityMode.SYNC if self.ack == "sync" else DurabilityMode.MEMORY


class CookieFix(_Section):
    """Who decides when a disk was replaced: the bookie, a person, or nobody."""

    policy: Literal["Auto", "Approve", "Never"] = "Auto"


class StorageOptions(_Section):
    """Sizes of one ledger directory's log and memory, in bytes; what is done to it, how often."""

    ring_bytes: Annotated[int, Field(ge=12 * MIB, le=1024 * MIB)] = 32 * MIB
    log_file_bytes: Annotated[int, Field(ge=16 * MIB, le=4096 * MIB)] = 128 * MIB
    direct_io: Literal["auto", "on", "off"] = "auto"
    compaction_interval_seconds: PositiveFloat = 60.0
    compaction_bytes_per_second_busy: PositiveInt = 8 * MIB
    """What compaction copies while normal adds come; without them as much as it can."""
    collect_interval_seconds: PositiveFloat = 60.0
    collect_grace_seconds: PositiveFloat = 900.0
    """A deleted ledger's entries go when two looks so far apart have missed it."""
    collect_share_max: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Of the ledgers of this bookie: if more would go at once, a person is asked."""
    collect_brake_from: PositiveInt = 20
    """Fewer ledgers than this go without, however large a share they are."""


class Limits(_Section):
    """Bounds of what clients may ask of this bookie at once."""

    connections: PositiveInt = 4096
    read_threads: Annotated[int, Field(ge=1, le=64)] = 4
    reads_in_flight: PositiveInt = 256
    reply_bytes: Annotated[int, Field(ge=16 * MIB)] = 64 * MIB
    """Replies to reads, of all connections, that are being read or that clients have not taken."""
    reply_bytes_per_connection: Annotated[int, Field(ge=8 * MIB)] = 16 * MIB
    reply_seconds: PositiveFloat = 30.0
    """How long a client may leave a reply untaken before its connection is cut off."""
    request_bytes: Annotated[int, Field(ge=16 * MIB)] = 256 * MIB
    """Of what clients of the data ports have sent and no message was made of; beyond that, those go
    whose message is incomplete for longest."""
    request_seconds: PositiveFloat = 60.0
    """Then a message that was begun has to be complete."""
    control_connections: PositiveInt = 256
    """Of the control plane."""
    control_calls: PositiveInt = 64
    """At once; each may bring as much as a message may."""
    http_connections: PositiveInt = 64
    http_seconds: PositiveFloat = 30.0
    """A connection to the HTTP port that has had no answer for so long is closed."""
    recovery_bytes_per_second_busy: PositiveInt = 8 * MIB
    """Recovery adds (repairs, recoveries) that are answered while normal adds come."""


class Lease(_Section):
    """The right to answer as this bookie; see `server.lease`.

    `seconds`: how long it lasts unconfirmed: longer than an ordinary outage of the metadata store.
    `confirm_seconds`: between two confirmations.
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
        """What another process waits."""
        return outlasts_s(self.seconds)


class Tls(_Section):
    """TLS on the ports of this bookie; see docs/security.md.

    `directory`: its credentials, `tls.crt`, `tls.key` and `ca.crt`. `mode`: whether the data ports
    take clients in plain beside those under TLS; the control plane takes none. `clients`: whether
    they have to show a certificate on the data ports. `handshake_seconds`: then it has to be done.
    `http`: the HTTP port is under TLS, too.
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
    """Of the session with ZooKeeper. `credentials_file`: YAML with scheme, user and password of a
    user of ZooKeeper's own; null: nobody's."""

    credentials_file: Path | None = None


ServicePrincipal = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9.:_-]+@[A-Za-z0-9._-]+$")
]
"""Whole, so that neither DNS nor a file of Kerberos' has a say in who a bookie is."""


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression ({error})") from error
    return text


class Authentication(_Section):
    """What stock clients must show before they may ask anything: BookKeeper's own authentication.

    `mechanisms`: each is a way in: `tls`, a certificate that section `tls` verifies; `digest-md5`,
    a user's password by SASL; `gssapi`, a ticket of Kerberos by SASL. `users_file`: lines
    `name:realm:key`, as `htdigest` writes them. `realm`, `service_name`: what clients with a
    password know this cluster by; Apache's know no other than these. `keytab`: has the key of
    `principal`, which is what clients ask for a ticket to, `bookkeeper/HOST@REALM`.
    `client_principals`: a regular expression that all of a client's principal matches; null: those
    of that realm with `bookkeeper` in their name. `replay_cache`: the file of tickets that were
    used; null: Kerberos' own. `login_seconds`: then a connection has to be authenticated.
    `unauthenticated_connections`: so many wait for that; with one more, the one that waits longest
    is cut off.
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
        """The regular expression for principals of clients. Apache's bookies let in whoever
        has `bookkeeper` in the name, if theirs is not set; here the realm counts, too."""
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

    `host`: a name, or a bare address of either family, that clients find in the registration.
    `bind`: what to listen on, the host when None; `0.0.0.0` or `::` is every address of the
    machine, of both families. `rack`: its network location, such as `/rack-a`; without it, what
    `rackFile` says, which may come and change while the bookie serves. `advertised`: where
    clients elsewhere reach it, `stock` and `run`, each as `host:port`; without, `advertisedFile`.
    `authentication`: of stock clients; without, whoever reaches the port may ask.
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
    """Settings of the file with the environment's overrides; SettingsError says what is wrong."""
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
    """Settings of a parsed mapping; every mistake in it is named in one SettingsError."""
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
    """The one value of a text, None for an empty one."""
    try:
        documents = parse_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{source} is not valid YAML: {error}") from error
    if len(documents) > 1:
        raise SettingsError(f"{source} holds {len(documents)} documents of YAML, expected one")
    return documents[0] if documents else None


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """What a field holds, be it optional or many of them; None when that is no section."""
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
