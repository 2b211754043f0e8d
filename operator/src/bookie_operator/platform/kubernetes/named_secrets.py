"""Secrets of people's that a spec names: what the operator reads of them, and how pods get them.

Pods mount them, so that a kubelet brings what changes into pods that run. The operator's own client
of ZooKeeper takes a file, which it keeps beside its certificates.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bookie.metadata.opening import LOGIN_VARIABLE

from bookie_operator.errors import ForbiddenError
from bookie_operator.model.authentication import LOGIN_KEY, USERS_KEY
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.observed import NamedSecret
from bookie_operator.plan.named_secrets import UNSEEN
from bookie_operator.platform.credential_files import Files
from bookie_operator.platform.credential_folders import replace_folder
from bookie_operator.platform.kubernetes.api import SECRET, Api
from bookie_operator.platform.kubernetes.credentials import files_of, with_secret
from bookie_operator.platform.kubernetes.pods import Part
from bookie_operator.platform.kubernetes.secret_reads import SecretReads
from bookie_operator.platform.named_secrets import Wanted, judged, login_secret, wanted_secrets

USERS_FOLDER: Final = "/etc/bookie/users"
USERS_FILE: Final = f"{USERS_FOLDER}/{USERS_KEY}"
LOGIN_FOLDER: Final = "/etc/bookie/zookeeper"
LOGIN_FILE: Final = f"{LOGIN_FOLDER}/{LOGIN_KEY}"
LOGINS: Final = ".zookeeper"
"""Folder in which the operator keeps the logins of all clusters; no namespace can have this
name."""


def with_users(pod: Mapping[str, Any], secret: str) -> Part:
    """A pod whose first container has the users of the stock port; as it is without."""
    if not secret:
        return dict(pod)
    source = _one_key(secret, USERS_KEY)
    return with_secret(pod, source, volume="disk--users", folder=USERS_FOLDER)


def with_login(pod: Mapping[str, Any], secret: str | None) -> Part:
    """A pod whose first container comes to ZooKeeper as this user; as it is without."""
    if not secret:
        return dict(pod)
    source = _one_key(secret, LOGIN_KEY)
    env = {LOGIN_VARIABLE: LOGIN_FILE}
    return with_secret(pod, source, volume="disk--zookeeper", folder=LOGIN_FOLDER, env=env)


def _one_key(secret: str, key: str) -> Part:
    return {"secretName": secret, "items": [{"key": key, "path": key}]}


class NamedSecrets:
    """Reads the Secrets that the spec of one cluster names."""

    def __init__(self, api: Api, clock: Callable[[], datetime], root: Path | None) -> None:
        """`root`: where the operator may write its own login; None = nowhere."""
        self._reads = SecretReads(api, clock)
        self._root = root
        self._written: bytes | None = None
        """What the file of the login has; None: nothing of this process's."""
        self.login: Path | None = None
        """The file with the operator's own; None: it has none that can be used."""

    async def look(self, cluster: BookieCluster) -> tuple[NamedSecret, ...]:
        """The Secrets that the spec names, and what is wrong with them."""
        found = [await self._judged(one) for one in wanted_secrets(cluster.spec)]
        mine = login_secret(cluster.spec)
        if mine is None:
            self.login = None
        elif not any(one.reason for one in found if one.field == mine.field):
            await self._keep(cluster, mine)
        return tuple(found)

    async def _judged(self, wanted: Wanted) -> NamedSecret:
        place = f"{SECRET.name} {wanted.name}"
        try:
            files = await self._files(wanted.name)
        except ForbiddenError as error:
            return NamedSecret(wanted.field, place, UNSEEN, str(error))
        return judged(wanted, files, place=place)

    async def _files(self, name: str) -> Files | None:
        found = await self._reads.get(name)
        return files_of(found) if found is not None else None

    async def _keep(self, cluster: BookieCluster, wanted: Wanted) -> None:
        files = await self._files(wanted.name)
        if self._root is None or files is None:
            return
        folder = self._root / LOGINS / cluster.metadata.namespace / cluster.metadata.name
        if files[wanted.key] != self._written:
            mine = {wanted.key: files[wanted.key]}
            await asyncio.to_thread(replace_folder, folder, mine)
            self._written = files[wanted.key]
        self.login = folder / wanted.key
