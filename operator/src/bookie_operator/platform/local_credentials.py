"""Certificates of the local platform's one cluster: an authority of its own, and a folder for each.

`<dir>/tls/ca` has the authority, `<dir>/tls/<role>-<name>` what a bookie, the operator, a job or a
person shows. Nobody but this user may read them.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.ids import BookieId
from bookie.tls.environment import DIRECTORY_VARIABLE, MODE_VARIABLE
from bookie.tls.principals import Principal, Role
from bookie.user import user_name

from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.tls import TlsMode
from bookie_operator.plan.actions import CertificateAction, StartJob
from bookie_operator.platform.certifier import Certifier
from bookie_operator.platform.credential_folders import FolderVault, folder_name
from bookie_operator.tls_view import Issuer, TlsView

NAMESPACE: Final = "local"
"""Namespace in the names of all certificates."""
SPREADS_WITHIN: Final = timedelta(seconds=2)
"""How long until every process uses new files: it reads them before each handshake."""
NO_ISSUER: Final = "the local platform has no cert-manager: leave out tls.issuer"


def client_environment(directory: str, clients: TlsMode) -> dict[str, str]:
    """What a client of ours is started with to talk so; nothing where that is plain."""
    if clients is TlsMode.OFF:
        return {}
    accepts = {MODE_VARIABLE: clients.value} if clients is TlsMode.ACCEPTED else {}
    return {DIRECTORY_VARIABLE: directory} | accepts


def bookie_folder(root: Path, bookie_id: BookieId) -> Path:
    """Folder of a bookie's credentials."""
    return root / folder_name(Principal(NAMESPACE, "", Role.BOOKIE, bookie_id))


class LocalCredentials:
    """The credentials of the cluster in one directory."""

    def __init__(self, root: Path, clock: Callable[[], datetime]) -> None:
        self._vault = FolderVault(root)
        self._clock = clock
        self._certifier: Certifier | None = None
        """None until the first look."""
        self._holders: tuple[Principal, ...] = ()
        """All holders, as the last look was asked for them."""

    @property
    def operator(self) -> Path | None:
        """The folder with the operator's own; None: it has none."""
        return self._folder_of(Role.OPERATOR)

    def shown_by(self, job: StartJob) -> Path | None:
        """The folder with those of a job: of all jobs, or of its own; None: it has none."""
        if job.shows is not None:
            return self._vault.folder(job.shows)
        return self._folder_of(Role.JOB)

    @property
    def zookeeper(self) -> Path | None:
        """The folder with those of the embedded ZooKeeper; None: it has none."""
        return self._folder_of(Role.ZOOKEEPER)

    def _folder_of(self, role: Role) -> Path | None:
        for holder in self._holders:
            folder = self._vault.folder(holder)
            if holder.role is role and folder.is_dir():
                return folder
        return None

    async def view(
        self, cluster: BookieCluster, bookie_ids: Iterable[BookieId], deciding: Iterable[str]
    ) -> TlsView:
        name = cluster.metadata.name
        if self._certifier is None:
            self._certifier = Certifier(self._vault, name, self._clock)
        self._holders = tuple(_holders(cluster, bookie_ids))
        issuer = cluster.spec.tls.issuer
        return TlsView(
            hosts=dict.fromkeys(self._holders, ()),
            certificates=await self._certifier.certificates(self._holders),
            places={holder: str(self._vault.folder(holder)) for holder in self._holders},
            authorities=await self._certifier.authorities(),
            issuer=Issuer(str(issuer), NO_ISSUER, is_there=False) if issuer else None,
            # Whoever hands in a task here is who runs this, whatever name the task has.
            deciding=dict.fromkeys(deciding, _person(name)),
            spreads_within=SPREADS_WITHIN,
        )

    async def carry_out(self, action: CertificateAction) -> None:
        if self._certifier is None:
            raise PreconditionError("nobody has looked at certificates yet")
        try:
            await self._certifier.carry_out(action, self._holders)
        except SettingsError as error:  # what was there when it was planned is not any more
            raise PreconditionError(str(error)) from error


def _holders(cluster: BookieCluster, bookie_ids: Iterable[BookieId]) -> Iterable[Principal]:
    name = cluster.metadata.name
    yield from (Principal(NAMESPACE, name, Role.BOOKIE, one) for one in bookie_ids)
    for role in (Role.OPERATOR, Role.JOB, Role.CLIENT):
        yield Principal(NAMESPACE, name, role, role.value)
    if cluster.spec.metadata.embedded is not None:
        yield Principal(NAMESPACE, name, Role.ZOOKEEPER, Role.ZOOKEEPER.value)
    yield _person(name)


def _person(cluster: str) -> Principal:
    return Principal(NAMESPACE, cluster, Role.PERSON, user_name())
