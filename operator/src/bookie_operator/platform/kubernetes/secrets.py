"""Certificates of one cluster on Kubernetes: Secrets that the operator's own authority signs, or an
issuer of cert-manager.

The operator asks for each Secret by its name: it may not list those of a namespace. It remembers
for a while what it read, and nothing of it is in a message.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bookie.errors import BookieError, SettingsError
from bookie.ids import BookieId
from bookie.tls.files import FILES
from bookie.tls.principals import Principal, Role

from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.task import recorded_name
from bookie_operator.model.tls import DecisionStatus
from bookie_operator.plan.actions import CertificateAction, WithdrawCertificate
from bookie_operator.platform.certifier import Certifier
from bookie_operator.platform.credential_files import Files
from bookie_operator.platform.credential_folders import replace_folder
from bookie_operator.platform.kubernetes.api import SECRET, Api
from bookie_operator.platform.kubernetes.cert_manager import CertManager
from bookie_operator.platform.kubernetes.credentials import (
    OF_CERTIFICATE,
    files_of,
    holders,
    is_written_by_cert_manager,
    place,
    secret,
    secret_name,
)
from bookie_operator.platform.kubernetes.keeper import Keeper, named
from bookie_operator.platform.kubernetes.kept import Seen
from bookie_operator.platform.kubernetes.ownership import check_ours
from bookie_operator.platform.kubernetes.secret_reads import SecretReads
from bookie_operator.tls_view import Certificate, TlsView, short_name

SPREADS_WITHIN: Final = timedelta(minutes=3)
"""A kubelet renews a mounted secret within its sync period and its cache's age, a minute each; who
has it looks before each handshake."""


class SecretVault:
    """Secrets of one cluster."""

    def __init__(self, api: Api, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._reads = SecretReads(api, clock)
        self.cluster: BookieCluster | None = None
        """The cluster whose Secrets these are; None until the first look."""
        self.has_issued = False
        """cert-manager wrote one of those that were read: its Certificates may still be there."""

    def forget(self) -> None:
        """Ask again."""
        self._reads.forget()

    async def read(self, holder: Principal | None) -> Files | None:
        assert self.cluster is not None, "somebody has looked before"
        found = await self._reads.get(secret_name(self.cluster.metadata.name, holder))
        if found is None:
            return None
        if is_written_by_cert_manager(found):
            self.has_issued = True
        files = files_of(found)
        return files if any(files.values()) else None  # else its content was taken away

    async def write(self, holder: Principal | None, files: Files) -> None:
        """NameTakenError: a Secret of this name is somebody else's."""
        assert self.cluster is not None, "somebody has looked before"
        body = secret(self.cluster, holder, files)
        name = str(body["metadata"]["name"])
        self._reads.forget(name)  # whatever becomes of it
        found = await self._api.get(SECRET, name)
        if found is not None:
            check_ours(SECRET, found, body)
            if is_written_by_cert_manager(found):  # it is not, from now on
                body["metadata"]["annotations"] = {OF_CERTIFICATE: ""}
        uid = str(found["metadata"]["uid"]) if found is not None else ""
        await self._api.apply(SECRET, named(body, uid))

    async def drop(self, holder: Principal) -> None:
        """The Secret stays, and has nothing in it: the operator may delete none."""
        if await self.read(holder) is not None:
            await self.write(holder, dict.fromkeys(FILES, b""))


class Credentials:
    """Of one cluster; the operator's own lie in a folder as well, since its clients take one."""

    def __init__(
        self,
        api: Api,
        keeper: Keeper,
        clock: Callable[[], datetime],
        root: Path | None,
        names_proved: bool,
    ) -> None:
        """`root`: folder for the operator's own credentials; None = none. `names_proved`: an
        admission policy makes people use their own names in decisions."""
        self._vault = SecretVault(api, clock)
        self._issuers = CertManager(api, keeper, clock)
        self._clock = clock
        self._root = root
        self._names_proved = names_proved
        self._hosts: Mapping[Principal, tuple[str, ...]] = {}
        """All holders, as the last look was asked for them."""
        self._certifier: Certifier | None = None
        """None until the first look."""
        self._written: Files | None = None
        """What the operator's folder has; None: nothing of this process's."""

    @property
    def folder(self) -> Path | None:
        """Folder with the operator's own credentials; None: it has none that can be used."""
        return self._path() if self._written is not None else None

    def _path(self) -> Path | None:
        cluster = self._vault.cluster
        if self._root is None or cluster is None:
            return None
        return self._root / cluster.metadata.namespace / cluster.metadata.name

    async def view(
        self, cluster: BookieCluster, bookie_ids: Iterable[BookieId], deciding: Iterable[str]
    ) -> TlsView:
        self._vault.cluster = cluster
        name = cluster.metadata.name
        if self._certifier is None:
            self._certifier = Certifier(self._vault, name, self._clock)
        self._hosts = holders(cluster, tuple(bookie_ids))
        persons = {one: self._decision_of(cluster, one) for one in deciding}
        everybody = (*self._hosts, *persons.values())
        found = await self._certifier.certificates(everybody)
        await self._keep_own(found)
        wanted = cluster.spec.tls.issuer
        view = TlsView(
            hosts=self._hosts,
            certificates=found,
            places={holder: place(name, holder) for holder in everybody},
            deciding=persons,
            spreads_within=SPREADS_WITHIN,
        )
        if wanted is not None:
            issuer = await self._issuers.look(cluster, wanted, map(short_name, self._hosts))
            return replace(view, issuer=issuer)
        return replace(view, authorities=await self._certifier.authorities())

    def _decision_of(self, cluster: BookieCluster, by: str) -> Principal:
        """The principal whose certificate the job of this person's decision shows."""
        name = recorded_name(by, is_proved=self._names_proved)
        return Principal(cluster.metadata.namespace, cluster.metadata.name, Role.DECISION, name)

    async def _keep_own(self, found: Mapping[Principal, Certificate]) -> None:
        """The operator's own credentials in its folder, when they are others."""
        own = next((one for one in found if one.role is Role.OPERATOR), None)
        path = self._path()
        if own is None or found[own].trouble or path is None:
            return
        files = await self._vault.read(own)
        if files is not None and files != self._written:
            await asyncio.to_thread(replace_folder, path, files)
            self._written = files

    async def carry_out(self, action: CertificateAction) -> None:
        if self._certifier is None:
            raise PreconditionError("nobody has looked at certificates yet")
        self._vault.forget()  # it is done to what is there now
        cluster = self._vault.cluster
        if isinstance(action, WithdrawCertificate) and cluster is not None:
            await self._issuers.drop(cluster, action.principal)
        try:
            await self._certifier.carry_out(action, self._hosts)
        except SettingsError as error:  # what was there when it was planned is not any more
            raise PreconditionError(str(error)) from error

    async def settle(
        self, cluster: BookieCluster, seen: Seen, decision: DecisionStatus | None
    ) -> dict[str, BookieError]:
        """Certificates of cert-manager, where it signs, and none where it did; what could not be
        written or taken away, by name."""
        if cluster.spec.paused or not self._hosts:
            return {}
        if cluster.spec.tls.issuer is not None:
            hosts = dict(self._hosts)
            if decision is not None:
                hosts[self._decision_of(cluster, decision.by)] = ()
            return await self._issuers.ask(cluster, hosts, seen)
        return await self._issuers.leave(cluster) if self._vault.has_issued else {}
