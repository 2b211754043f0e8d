"""What the platform needs of an API server, over plain dictionaries; ground of this package.

Writes are server-side applies under a field manager of our own, so that what others own in an
object survives; deletions name object and version they were planned for. Nothing is retried here: a
pass that fails is planned again. `dynamic_api` is the real one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

from bookie.errors import BookieError

from bookie_operator.model.base import GROUP, VERSION
from bookie_operator.model.tls import CERT_MANAGER

MANAGER: Final = "bookie-operator"
PAGE_MAX: Final = 500
"""Objects that a server sends at once; as kubectl has it."""

Object = dict[str, Any]


class RefusedError(BookieError):
    """The API server refused the object itself; the message is the server's."""


class NotServedError(RefusedError):
    """The API server knows no such kind: its CRD is not installed, or something that stands in
    front of the server answers in its place."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Group, version and name of a kind of objects."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "") -> str:
        """URL path of one object, or of all; without a namespace, of those in all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{middle}/{self.plural}" + (f"/{quote(name)}" if name else "")


POD: Final = Kind("", "v1", "pods", "Pod")
CLAIM: Final = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CONFIG_MAP: Final = Kind("", "v1", "configmaps", "ConfigMap")
SERVICE: Final = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNT: Final = Kind("", "v1", "serviceaccounts", "ServiceAccount")
EVENT: Final = Kind("", "v1", "events", "Event")
NODE: Final = Kind("", "v1", "nodes", "Node", namespaced=False)
SECRET: Final = Kind("", "v1", "secrets", "Secret")
STATEFUL_SET: Final = Kind("apps", "v1", "statefulsets", "StatefulSet")
JOB: Final = Kind("batch", "v1", "jobs", "Job")
NETWORK_POLICY: Final = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
BUDGET: Final = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ROLE: Final = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
STORAGE_CLASS: Final = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_DRIVER: Final = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
LEASE: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease")
CERTIFICATE: Final = Kind(CERT_MANAGER, "v1", "certificates", "Certificate")
ISSUER: Final = Kind(CERT_MANAGER, "v1", "issuers", "Issuer")
CLUSTER_ISSUER: Final = Kind(
    CERT_MANAGER, "v1", "clusterissuers", "ClusterIssuer", namespaced=False
)
CLUSTER: Final = Kind(GROUP, VERSION, "bookieclusters", "BookieCluster")
TASK: Final = Kind(GROUP, VERSION, "bookietasks", "BookieTask")


class Api(Protocol):
    """One namespace of an API server; cluster-wide kinds are reached as well.

    UnavailableError = no answer now; ForbiddenError = a permission lacks; PreconditionError = the
    object is not what the caller planned for; RefusedError = the object is wrong.
    """

    @property
    def namespace(self) -> str: ...

    async def get(self, kind: Kind, name: str) -> Object | None: ...

    async def list(
        self,
        kind: Kind,
        labels: Mapping[str, str] | None = None,
        *,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        """Live, by equality of labels, and of fields such as `involvedObject.name`."""

    async def create(self, kind: Kind, body: Object) -> Object | None:
        """Create an object; None = one of this name exists."""

    async def apply(self, kind: Kind, body: Object, *, manager: str = MANAGER) -> Object:
        """Server-side apply with force.

        A uid in `body` stands for that very object, a resourceVersion for that state of it; without
        a uid an object that is not there is created.
        """

    async def replace_status(
        self, kind: Kind, name: str, status: Object, *, version: str
    ) -> Object:
        """Replaces the whole status, of that very state of the object.

        Not applied: what a CRD of another version has no field for is left out, where an apply
        would be refused whole.
        """

    async def delete(self, kind: Kind, thing: Object, *, is_forced: bool = False) -> bool:
        """False = it is not there. Only that very object, as it was when `thing` was read.

        `is_forced`: of a pod, without waiting for its node, which may run it on.
        """

    async def log(self, pod: str, *, container: str, lines: int, size: int) -> str:
        """The last `lines` of a container's log, and of these the first `size` bytes.

        RefusedError: there is no such pod, or the container has not started.
        """


def typed(kind: Kind, body: Object) -> Object:
    """The object with its apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}
