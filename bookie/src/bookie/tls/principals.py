"""The name that a certificate gives its holder: fleet, role and name as one URI, in the form of
SPIFFE.

`spiffe://bookie-operator/<namespace>/<cluster>/<role>/<name>`. Two holders belong to one fleet when
namespace and cluster are the same, so that one authority may sign for several fleets. Pure.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self
from urllib.parse import quote, unquote

TRUST_DOMAIN: Final = "bookie-operator"
PREFIX: Final = f"spiffe://{TRUST_DOMAIN}/"
PARTS: Final = 4
SERVER_DOMAIN: Final = "bookie-operator.internal"
"""DNS domain of the names that servers of a fleet have, whatever their addresses; no resolver knows
them (`.internal` is for private use)."""
LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
HASH_CHARACTERS: Final = 40
COMMON_NAME_CHARACTERS_MAX: Final = 64
FLEET: Final = "fleet"
CLIENT: Final = "client"


class Role(StrEnum):
    """What the holder of a certificate is."""

    OPERATOR = "operator"
    JOB = "job"
    BOOKIE = "bookie"
    CLIENT = "client"
    PERSON = "person"
    DECISION = "decision"
    """A job that carries out one decision of the person whose name it has."""
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a certificate. `name`: for example a bookie's id, or a person's name."""

    namespace: str
    cluster: str
    role: Role
    name: str

    @property
    def uri(self) -> str:
        parts = (self.namespace, self.cluster, self.role.value, self.name)
        return PREFIX + "/".join(quote(part, safe="") for part in parts)

    @property
    def server_name(self) -> str:
        """The DNS name that its certificate has in addition to its addresses."""
        labels = (self.name, self.role.value, self.cluster, self.namespace)
        return ".".join((*map(_label, labels), SERVER_DOMAIN))

    @property
    def common_name(self) -> str:
        """The subject of its certificate, by which ZooKeeper identifies it: `fleet` or `client`,
        not its own name, so that the processes of a fleet may change what any of them made.
        """
        kind = CLIENT if self.role is Role.CLIENT else FLEET
        labels = (kind, _label(self.cluster), _label(self.namespace))
        name = ".".join(labels)
        if len(name) <= COMMON_NAME_CHARACTERS_MAX:
            return name
        return f"{kind}.{_hashed(name)}"

    @property
    def x509_name(self) -> str:
        """The common name as a distinguished name, as ZooKeeper's scheme `x509` writes it."""
        return f"CN={self.common_name}"

    def is_of_fleet_of(self, other: "Principal") -> bool:
        return (self.namespace, self.cluster) == (other.namespace, other.cluster)

    def peer(self, role: Role, name: str) -> "Principal":
        """The principal of another member of this fleet."""
        return Principal(self.namespace, self.cluster, role, name)

    @classmethod
    def from_uri(cls, uri: str) -> Self | None:
        """Read a URI. None when it is no such name, or is spelled in another way than `uri` spells
        it: the rules about who may be given which name compare characters.
        """
        parts = uri.removeprefix(PREFIX).split("/")
        if not uri.startswith(PREFIX) or len(parts) != PARTS or not all(parts):
            return None
        namespace, cluster, role, name = map(unquote, parts)
        if role not in set(Role):
            return None
        found = cls(namespace, cluster, Role(role), name)
        return found if found.uri == uri else None

    @classmethod
    def from_names(cls, uris: Iterable[str]) -> Self | None:
        """The principal among the URIs of a certificate; None when there is none, or
        more than one.
        """
        found = [found for uri in uris if (found := cls.from_uri(uri)) is not None]
        return found[0] if len(found) == 1 else None

    @classmethod
    def of_certificate(cls, certificate: Mapping[str, Any] | None) -> Self | None:
        """The holder of a verified certificate, which is given as `ssl.SSLObject.getpeercert`
        returns it.
        """
        return cls.from_names(_uris(certificate))

    def __str__(self) -> str:
        return f"{self.role.value} {self.name} of {self.namespace}/{self.cluster}"


def names_of_fleets(certificate: Mapping[str, Any] | None) -> list[str]:
    """All URIs of a verified certificate that begin like a principal's, well formed or not."""
    return [uri for uri in _uris(certificate) if uri.lower().startswith(PREFIX)]


def _uris(certificate: Mapping[str, Any] | None) -> Iterable[str]:
    names = (certificate or {}).get("subjectAltName", ())
    return (value for kind, value in names if kind == "URI")


def _label(text: str) -> str:
    """The text as a label of a DNS name; a text that cannot be a label is replaced by its hash."""
    if LABEL.fullmatch(text):
        return text
    return _hashed(text)


def _hashed(text: str) -> str:
    return "x" + hashlib.sha256(text.encode()).hexdigest()[:HASH_CHARACTERS]
