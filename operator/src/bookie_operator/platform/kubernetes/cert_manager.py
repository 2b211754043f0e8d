"""What the operator asks of cert-manager: a Certificate for everybody, of the issuer in the spec.

cert-manager writes the Secrets, with the keys that the operator's own authority would write, and
renews them. Only clusters that name an issuer need its kinds, and rights to them.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from bookie.errors import BookieError
from bookie.tls.authority import LOOPBACK
from bookie.tls.principals import Principal, Role

from bookie_operator.errors import ForbiddenError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.tls import CERT_MANAGER, CertificateIssuer, IssuerKind
from bookie_operator.plan.certificate_troubles import names_needed
from bookie_operator.plan.certificates import advertised_hosts
from bookie_operator.plan.decision_certificates import decision_lifetime
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.annotations import annotation_of
from bookie_operator.platform.kubernetes.api import (
    CERTIFICATE,
    CLUSTER_ISSUER,
    ISSUER,
    Api,
    Kind,
    NotServedError,
    Object,
)
from bookie_operator.platform.kubernetes.credentials import secret_name
from bookie_operator.platform.kubernetes.keeper import Keeper
from bookie_operator.platform.kubernetes.kept import Seen
from bookie_operator.platform.kubernetes.optional_objects import OptionalObjects
from bookie_operator.platform.kubernetes.surroundings import owned
from bookie_operator.platform.kubernetes.view import bookie_of
from bookie_operator.tls_view import Issuer

LOOKED_FOR: Final = timedelta(seconds=30)
"""How long an answer of cert-manager is used before it is asked again."""
USAGES: Final = ("digital signature", "client auth")
SERVER_USAGE: Final = "server auth"
KINDS: Final = {IssuerKind.ISSUER: ISSUER, IssuerKind.CLUSTER_ISSUER: CLUSTER_ISSUER}


def certificate(
    cluster: BookieCluster, holder: Principal, hosts: Iterable[str], issuer: CertificateIssuer
) -> Object:
    """The Certificate of one holder."""
    name = secret_name(cluster.metadata.name, holder)
    needed = names_needed(holder, [*hosts, *LOOPBACK])
    addresses = [host for host in needed if _is_address(host)]
    spec: Object = {
        "secretName": name,
        "secretTemplate": {"labels": names.labels(cluster.metadata.name, names.TLS)},
        "commonName": holder.common_name,  # by which ZooKeeper knows its holder
        **_times(cluster, holder),
        "privateKey": {
            "algorithm": "ECDSA",
            "size": 256,
            "encoding": "PKCS8",
            "rotationPolicy": "Always",
        },
        "usages": [*USAGES, SERVER_USAGE] if needed else list(USAGES),
        "uris": [holder.uri],
        "issuerRef": {"name": issuer.name, "kind": issuer.kind.value, "group": issuer.group},
    }
    if needed:
        dns = dict.fromkeys(host for host in needed if host not in addresses)
        spec |= {"dnsNames": list(dns), "ipAddresses": list(dict.fromkeys(addresses))}
    return owned(cluster, name, names.TLS, {"spec": spec})


def _times(cluster: BookieCluster, holder: Principal) -> Object:
    if holder.role is Role.DECISION:
        hours = decision_lifetime(cluster.spec) // timedelta(hours=1) + 1
        return {"duration": f"{hours}h0m0s"}
    tls = cluster.spec.tls
    return {
        "duration": f"{24 * tls.lifetime_days}h0m0s",
        "renewBefore": f"{24 * tls.renew_before_days}h0m0s",
    }


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def ready_of(found: Object) -> tuple[bool, str]:
    """Whether it is Ready, by its own word, and why it is not."""
    for condition in (found.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            why = str(condition.get("message") or condition.get("reason") or "it does not say why")
            return condition.get("status") == "True", why
    return False, "it says nothing yet: is cert-manager running?"


class CertManager:
    """Issuer and Certificates of one cluster."""

    def __init__(self, api: Api, keeper: Keeper, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._objects = OptionalObjects(api, keeper, CERTIFICATE, names.TLS)
        self._seen: tuple[datetime, Issuer] | None = None
        """What was found, and when that was asked for; None: nothing was."""

    async def look(
        self, cluster: BookieCluster, wanted: CertificateIssuer, holders: Iterable[str]
    ) -> Issuer:
        """The issuer, and which of the holders it refuses."""
        now = self._clock()
        if self._seen is not None and timedelta() <= now - self._seen[0] < LOOKED_FOR:
            return self._seen[1]
        try:
            found = await self._look(cluster, wanted, set(holders))
        except (ForbiddenError, NotServedError) as error:
            found = Issuer(str(wanted), str(error))
        self._seen = (now, found)
        return found

    async def _look(
        self, cluster: BookieCluster, wanted: CertificateIssuer, holders: set[str]
    ) -> Issuer:
        name = str(wanted)
        if wanted.group == CERT_MANAGER:  # others have kinds that nobody here knows
            issuer = await self._issuer(wanted)
            if issuer is None:
                why = f"expected it in namespace {cluster.metadata.namespace}"
                if wanted.kind is IssuerKind.CLUSTER_ISSUER:
                    why = "expected it among the cluster's"
                return Issuer(name, f"{why}, and cert-manager to be installed", is_there=False)
            is_ready, why = ready_of(issuer)
            if not is_ready:
                return Issuer(name, why)
        refused = {
            of: why
            for one in await self._objects.there(cluster)
            if (of := _holder_of(one, cluster.metadata.name)) in holders
            and not (said := ready_of(one))[0]
            and (why := said[1])
        }
        return Issuer(name, refused=refused)

    async def _issuer(self, wanted: CertificateIssuer) -> Object | None:
        kind: Kind = KINDS[wanted.kind]
        return await self._api.get(kind, wanted.name)

    async def ask(
        self,
        cluster: BookieCluster,
        hosts: Mapping[Principal, tuple[str, ...]],
        seen: Seen,
    ) -> dict[str, BookieError]:
        """Certificates for everybody, by all names that they are dialled by."""
        issuer = cluster.spec.tls.issuer
        assert issuer is not None, "somebody else signs"
        outside = {
            bookie_of(pod): advertised_hosts(annotation_of(pod, names.ADVERTISED))
            for pod in seen.pods
        }
        wanted = [
            (CERTIFICATE, certificate(cluster, holder, (*inside, *more), issuer))
            for holder, inside in hosts.items()
            for more in [outside.get(holder.name, []) if holder.role is Role.BOOKIE else []]
        ]
        return await self._objects.settle(wanted, cluster)

    async def drop(self, cluster: BookieCluster, holder: Principal) -> None:
        """Have nothing written any more of one that is not to have a certificate."""
        if cluster.spec.tls.issuer is None:
            return
        name = secret_name(cluster.metadata.name, holder)
        for one in await self._objects.there(cluster):
            if one["metadata"]["name"] == name:
                await self._api.delete(CERTIFICATE, one)

    async def leave(self, cluster: BookieCluster) -> dict[str, BookieError]:
        """No Certificates: the operator signs, and two would write one Secret in turns."""
        return await self._objects.settle((), cluster)


def _holder_of(found: Object, cluster: str) -> str:
    """`demo-bookie-0-tls` is of `bookie-0`."""
    name = str(found["metadata"]["name"])
    return name.removeprefix(f"{cluster}-").removesuffix("-tls")
