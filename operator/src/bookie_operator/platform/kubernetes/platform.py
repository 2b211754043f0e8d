"""The Kubernetes platform: what the planner asks for, as objects of one namespace.

Composes `view` (reading), `bookies`, `surroundings`, `jobs` (manifests) and `recorder` over an Api.
It keeps no important state in memory: it reads everything again, and what a restarted operator
needs is in the objects. A bookie's StatefulSet with 0 replicas is a fence while its volumes are
being made.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.errors import BookieError, UnavailableError
from bookie.ids import BookieId

from bookie_operator.errors import NameTakenError, PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.model.tls import TlsMode, TlsStatus
from bookie_operator.observed import Bookie, Job, NamedSecret, Volume
from bookie_operator.plan.actions import (
    BookieTemplate,
    CertificateAction,
    DiskTemplate,
    Event,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
)
from bookie_operator.plan.tls_modes import with_mode
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.access import Access, accounts_of
from bookie_operator.platform.kubernetes.addresses import Addresses
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    JOB,
    POD,
    STATEFUL_SET,
    TASK,
    Api,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.bookies import (
    bookie_objects,
    bookie_selector,
    claim,
    pod_settings,
    settings_of,
    volumes_named,
)
from bookie_operator.platform.kubernetes.claims import (
    expand,
    expand_zookeeper,
    leave,
    planned_claim,
    take_back,
    very,
)
from bookie_operator.platform.kubernetes.classes import access_mode
from bookie_operator.platform.kubernetes.cluster_tasks import ClusterTasks
from bookie_operator.platform.kubernetes.embedded_zookeeper import keep_zookeeper
from bookie_operator.platform.kubernetes.job_view import JobView
from bookie_operator.platform.kubernetes.jobs import beyond_history, job_manifest
from bookie_operator.platform.kubernetes.keeper import Keeper
from bookie_operator.platform.kubernetes.kept import Seen, kept_objects
from bookie_operator.platform.kubernetes.named_secrets import NamedSecrets
from bookie_operator.platform.kubernetes.nodes import Nodes
from bookie_operator.platform.kubernetes.ownership import check_labels, check_ours, is_of
from bookie_operator.platform.kubernetes.recorder import Recorder
from bookie_operator.platform.kubernetes.secrets import Credentials
from bookie_operator.platform.kubernetes.surroundings import (
    accounts,
    disruption_budget,
    services,
    zookeeper_url,
)
from bookie_operator.platform.kubernetes.view import (
    bookies_of,
    is_known,
    kept_claims_of,
    missed_object,
    pod_of_instance,
    volume_of,
    with_word,
)
from bookie_operator.platform.kubernetes.warnings import Warnings
from bookie_operator.tls_view import TlsView

LOGGER: Final = logging.getLogger(__name__)

FENCE_MANAGER: Final = "bookie-operator-fence"
"""Owns `replicas` from the fence on; the next whole apply takes it back."""


class KubernetesPlatform:
    """One cluster in one namespace."""

    def __init__(
        self,
        api: Api,
        cluster: BookieCluster,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        operator_namespace: str = "",
        credentials: Path | None = None,
        names_proved: bool = False,
    ) -> None:
        """`operator_namespace`: namespace of the operator's own pods; empty = not known.
        `credentials`: folder for its own credentials; None = none. `names_proved`: an admission
        policy makes people use their own names in decisions."""
        self._api = api
        self._cluster = cluster
        self._clock = clock
        self._keeper = Keeper(api)
        self._recorder = Recorder(api)
        self._nodes = Nodes(api, clock)
        self._warnings = Warnings(api, clock)
        self._jobs = JobView(api, cluster.metadata, clock)
        self._addresses = Addresses(api, self._keeper, clock)
        self._access = Access(api, self._keeper, operator_namespace=operator_namespace)
        self._credentials = Credentials(api, self._keeper, clock, credentials, names_proved)
        self._secrets = NamedSecrets(api, clock, credentials)
        self._clients = TlsMode.OFF
        """How jobs talk to bookies."""
        self._woken = asyncio.Event()
        self._metadata_url = ""
        """Empty until the metadata store has an address: nothing starts before."""
        self._seen = Seen()
        self._tasks = ClusterTasks(api, self._recorder)

    @property
    def _name(self) -> str:
        return self._cluster.metadata.name

    def wake(self) -> None:
        """Something of this cluster changed: look soon."""
        self._woken.set()

    def noticed(self, kind: Kind, thing: Object, *, is_gone: bool) -> None:
        """What a watch tells of an object that is kept."""
        if self._keeper.noticed(kind, thing, is_gone=is_gone) or is_gone:
            self._woken.set()

    # What is there

    async def metadata_url(self, cluster: BookieCluster) -> str:
        self._cluster = cluster
        wanted = cluster.spec.metadata.connect
        if wanted is None:
            await keep_zookeeper(self._api, self._keeper, cluster)
            wanted = zookeeper_url(cluster)
        self._metadata_url = wanted
        return wanted

    def _known_url(self) -> str:
        if not self._metadata_url:
            raise UnavailableError("the metadata store's address is not known yet")
        return self._metadata_url

    async def bookies(self) -> Mapping[BookieId, Bookie]:
        chosen = names.selector(self._name, names.BOOKIE)
        pods, claims, sets = await asyncio.gather(
            *(self._api.list(kind, chosen) for kind in (POD, CLAIM, STATEFUL_SET))
        )
        self._seen = Seen(pods, claims, sets, await self._nodes.of(pods))
        found = bookies_of(pods=pods, claims=claims, sets=sets, nodes=self._seen.nodes)
        missed = {
            bookie_id: name
            for bookie_id, one in found.items()
            if (name := missed_object(one, pods, names.set_name(self._name, bookie_id)))
        }
        said = await self._warnings.about(missed)
        return found | {one: with_word(found[one], word) for one, word in said.items()}

    async def kept_claims(self) -> Mapping[BookieId, Sequence[str]]:
        return kept_claims_of(self._seen.claims)

    async def jobs(self) -> Sequence[Job]:
        return await self._jobs.jobs()

    async def certificates(
        self, cluster: BookieCluster, bookie_ids: Sequence[BookieId], deciding: Sequence[str] = ()
    ) -> TlsView:
        return await self._credentials.view(cluster, bookie_ids, deciding)

    async def secrets(self, cluster: BookieCluster) -> Sequence[NamedSecret]:
        return await self._secrets.look(cluster)

    @property
    def credentials(self) -> Path | None:
        return self._credentials.folder

    @property
    def login(self) -> Path | None:
        return self._secrets.login

    async def certify(self, action: CertificateAction) -> None:
        await self._credentials.carry_out(action)

    async def tasks(self) -> Sequence[BookieTask]:
        return await self._tasks.tasks(self._cluster)

    # Bookies and volumes

    async def create_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        known = await self._api.get(CLAIM, names.claim_name(self._name, bookie_id, disk.name))
        if known is not None:
            return await take_back(self._api, known, self._name, bookie_id, disk)
        if not await self._is_fenced(bookie_id):
            return False
        mode = await access_mode(self._api, disk.storage_class)
        body = claim(self._name, bookie_id, disk, access_mode=mode)
        return await self._api.create(CLAIM, body) is not None

    async def _is_fenced(self, bookie_id: BookieId) -> bool:
        """No pod of this bookie can come up; sees to it when one could.

        Only once the controller says that it knows: until then it may make a pod of what it saw.
        """
        known = await self._set(bookie_id)
        if known is not None and known["spec"].get("replicas") != 0:
            await self._scale(known, 0)
            return False
        pods = await self._pods(bookie_id)
        if known is None:  # somebody took the set away and left its pod: nothing else ends it
            for pod in pods:
                await self._api.delete(POD, pod)
        return is_known(known) and not pods

    async def start_bookie(self, template: BookieTemplate, *, keeps_settings: bool = False) -> bool:
        begun = await self._run_as_before(template) if keeps_settings else None
        if begun is not None:
            return begun
        await self._run(template)
        for pod in await self._pods(template.bookie_id):
            revision = (pod["metadata"].get("annotations") or {}).get(names.REVISION)
            if revision != template.revision:  # it does not run, or this was not asked for
                await self._api.delete(POD, pod)
        return True

    async def _run_as_before(self, template: BookieTemplate) -> bool | None:
        """With the settings that it had: whether that had to be begun.

        None = they are of volumes that it has no more, or nobody knows them: somebody took the
        StatefulSet away, and this operator has not written it.
        """
        name = names.set_name(self._name, template.bookie_id)
        known = await self._set(template.bookie_id)
        if known is not None and known["spec"].get("replicas") != 0:
            # Its controller makes a pod of what stands there, if its settings still do.
            is_whole = await self._api.get(CONFIG_MAP, settings_of(known)) is not None
            return False if is_whole else None
        before = known or self._keeper.remembered(STATEFUL_SET, name)
        if before is None or not await self._fits(before, template):
            return None
        if known is None:
            await self._keeper.write(STATEFUL_SET, before)
        else:
            await self._scale(known, 1)
        return True

    async def _fits(self, known: Object, template: BookieTemplate) -> bool:
        """The settings of this StatefulSet are there, and name the volumes that the bookie has."""
        found = await self._api.get(CONFIG_MAP, settings_of(known))
        if found is None:
            return False
        volumes = await self._volumes(template.bookie_id)
        has = {volume.uid for volume in volumes.values()}
        return volumes_named(found) == has and len(has) == len(template.disks)

    async def restart_bookie(
        self, template: BookieTemplate, *, instance: str, keeps_settings: bool = False
    ) -> bool:
        pod = await self._planned_pod(template.bookie_id, instance)
        if pod is None:
            return False
        if not keeps_settings:
            await self._run(template)
        await self._api.delete(POD, pod)
        return True

    async def _run(self, template: BookieTemplate) -> None:
        volumes = await self._volumes(template.bookie_id)
        lacking = [disk.name for disk in template.disks if disk.name not in volumes]
        if lacking:
            raise UnavailableError(f"{template.bookie_id} has no volume {', '.join(lacking)} yet")
        url = self._known_url()
        await self._keeper.keep(accounts(self._cluster) + services(self._cluster))
        text = pod_settings(template, volumes, url)
        for kind, body in bookie_objects(self._cluster, template, text, metadata_url=url):
            await self._keeper.write(kind, body)
        name = names.settings_name(self._name, template.bookie_id, text)
        await self._drop_old_settings(template.bookie_id, name)

    async def _drop_old_settings(self, bookie_id: BookieId, wanted: str) -> None:
        """Settings that neither the StatefulSet nor a pod names any more."""
        used = {wanted}
        for pod in await self._pods(bookie_id):
            used |= {
                str(volume["configMap"]["name"])
                for volume in pod["spec"].get("volumes", ())
                if "configMap" in volume
            }
        for one in await self._api.list(CONFIG_MAP, bookie_selector(self._name, bookie_id)):
            if one["metadata"]["name"] not in used:
                self._keeper.forget(CONFIG_MAP, one["metadata"]["name"])
                await self._api.delete(CONFIG_MAP, one)

    async def replace_volume(self, bookie_id: BookieId, disk: str, *, uid: str) -> bool:
        known = await self._planned(bookie_id, disk, uid)
        is_under_way = "deletionTimestamp" in known["metadata"]
        if not is_under_way:
            await self._api.delete(CLAIM, known)
        await self._is_fenced(bookie_id)  # Kubernetes keeps the volume until the pod has ended
        return not is_under_way

    async def replace_bookie(self, action: ReplaceBookie) -> bool:
        bookie_id = action.bookie_id
        pods = await self._pods(bookie_id)
        if pods:
            pod_of_instance(pods, bookie_id, action.instance)
        claims = [await self._planned(bookie_id, disk, uid) for disk, uid in action.volumes]
        fresh = [claim for claim in claims if "deletionTimestamp" not in claim["metadata"]]
        for known in fresh:
            await self._api.delete(CLAIM, known)
        await self._is_fenced(bookie_id)
        if action.is_node_lost:
            await self._force(await self._pods(bookie_id))
        return bool(fresh)

    async def expand_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        known = await self._api.get(CLAIM, names.claim_name(self._name, bookie_id, disk.name))
        return known is not None and await expand(self._api, known, disk.size)

    async def _planned(self, bookie_id: BookieId, disk: str, uid: str) -> Object:
        name = names.claim_name(self._name, bookie_id, disk)
        return await planned_claim(self._api, name, uid=uid)

    async def remove_bookie(self, action: RemoveBookie) -> bool:
        bookie_id = action.bookie_id
        known = await self._set(bookie_id)
        is_begun = known is None or known["spec"].get("replicas") == 0
        pods = await self._pods(bookie_id)
        if not is_begun and pods:
            pod = pod_of_instance(pods, bookie_id, action.instance)
            if pod is None and not action.is_node_lost:
                return False
        if await self._is_fenced(bookie_id):
            self._keeper.forget(STATEFUL_SET, names.set_name(self._name, bookie_id))
            fenced = await self._set(bookie_id)
            if fenced is not None:
                await self._api.delete(STATEFUL_SET, fenced)
            await self._drop_old_settings(bookie_id, "")
            for one in await self._api.list(CLAIM, bookie_selector(self._name, bookie_id)):
                if action.delete_volumes:
                    await self._api.delete(CLAIM, one)
                else:
                    await leave(self._api, one)
        elif action.is_node_lost:
            await self._force(pods)
        return not is_begun

    async def _force(self, pods: Sequence[Object]) -> None:
        """Delete pods by force whose node is lost: nothing else reports that they have ended."""
        for pod in pods:
            await self._api.delete(POD, pod, is_forced=True)

    async def _planned_pod(self, bookie_id: BookieId, instance: str) -> Object | None:
        """The pod that `instance` names; None when it is ending already. Else PreconditionError."""
        return pod_of_instance(await self._pods(bookie_id), bookie_id, instance)

    async def _pods(self, bookie_id: BookieId) -> Sequence[Object]:
        return await self._api.list(POD, bookie_selector(self._name, bookie_id))

    async def _volumes(self, bookie_id: BookieId) -> dict[str, Volume]:
        claims = await self._api.list(CLAIM, bookie_selector(self._name, bookie_id))
        found = map(volume_of, claims)
        return {volume.disk: volume for volume in found if not volume.is_terminating}

    async def _set(self, bookie_id: BookieId) -> Object | None:
        found = await self._api.get(STATEFUL_SET, names.set_name(self._name, bookie_id))
        if found is not None:
            check_labels(STATEFUL_SET, found, self._name, bookie_id)
        return found

    async def _scale(self, known: Object, replicas: int) -> None:
        metadata = known["metadata"]
        version = {"resourceVersion": metadata["resourceVersion"]}
        body: Object = {"metadata": very(metadata) | version, "spec": {"replicas": replicas}}
        self._keeper.forget(STATEFUL_SET, str(metadata["name"]))  # the change is our own
        await self._api.apply(STATEFUL_SET, body, manager=FENCE_MANAGER)

    # Jobs

    async def start_job(self, job: StartJob) -> bool:
        url = self._known_url()
        # A volume may be mounted by one pod only; the next pass looks whether that has gone.
        owner = job.bookie_id if job.disks else None
        if owner is not None and not await self._is_fenced(owner):
            return False
        await self._keeper.keep(accounts_of(self._cluster, job))
        body = job_manifest(
            self._cluster, job, metadata_url=url, now=self._clock(), clients=self._clients
        )
        if await self._api.create(JOB, body) is not None:
            await self._prune_jobs()  # last: an old job that cannot go holds up no new one
            return True
        found = await self._api.get(JOB, job.name)
        if found is not None:
            check_ours(JOB, found, body)
        return False

    async def stop_job(self, name: str) -> None:
        known = await self._api.get(JOB, name)
        if known is not None:
            await self._api.delete(JOB, known)

    async def _prune_jobs(self) -> None:
        found = await self._api.list(JOB, names.selector(self._name, names.JOBS))
        mine = [one for one in found if is_of(one, self._cluster.metadata.uid)]
        for one in beyond_history(mine):
            await self._api.delete(JOB, one)

    # What people see

    async def record(self, event: Event) -> None:
        await self._recorder.record(event, self._cluster)

    async def publish(self, cluster: BookieCluster) -> None:
        own, status = cluster.metadata, cluster.status.as_dict()
        await self._api.replace_status(CLUSTER, own.name, status, version=own.resource_version)

    async def settle(
        self, cluster: BookieCluster, status: ClusterStatus
    ) -> Mapping[str, BookieError]:
        in_force = status.tls or TlsStatus()
        self._clients = TlsMode(in_force.clients)
        spec = with_mode(cluster.spec, TlsMode(in_force.mode))
        failed = await self._keeper.tried(
            [
                disruption_budget(cluster, status.disruptions_allowed),
                *accounts(cluster),
                *services(cluster),
                *kept_objects(
                    cluster.model_copy(update={"spec": spec}),
                    self._seen,
                    metadata_url=self._metadata_url,
                    remembered=self._keeper.remembered,
                ),
            ]
        )
        failed |= await self._tasks.bind(self._cluster)
        failed |= await expand_zookeeper(self._api, self._cluster)
        failed |= await self._addresses.settle(cluster, self._seen)
        failed |= await self._access.settle(cluster, in_use=self._jobs.accounts)
        failed |= await self._credentials.settle(cluster, self._seen, in_force.decision)
        for sentence in self._keeper.sentences():
            event = Event("ObjectRestored", sentence, type="Warning")
            await self._recorder.tell(event, self._cluster)
        return failed

    async def publish_task(self, task: BookieTask) -> None:
        own = task.metadata
        known = await self._api.get(TASK, own.name)
        if known is None or known["metadata"]["uid"] != own.uid:
            raise PreconditionError(f"task {own.name} is gone, or another one by now")
        version = known["metadata"]["resourceVersion"]  # not the one that was read: bound since
        await self._api.replace_status(TASK, own.name, task.status.as_dict(), version=version)

    async def delete_task(self, name: str, *, uid: str) -> None:
        await self._tasks.delete(name, uid=uid)

    async def wait(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        self._woken.clear()

    # The end

    async def take_down(self, *, delete_volumes: bool) -> bool:
        """Stop every bookie gracefully while its metadata store still runs; True = all ended."""
        is_down = True
        for bookie_id in await self.bookies():
            is_down = await self._is_down(bookie_id) and is_down
        if is_down and delete_volumes:
            for component in (names.BOOKIE, names.ZOOKEEPER):
                for one in await self._api.list(CLAIM, names.selector(self._name, component)):
                    if names.RETAINED_LABEL not in one["metadata"]["labels"]:
                        await self._api.delete(CLAIM, one)
        return is_down

    async def _is_down(self, bookie_id: BookieId) -> bool:
        with suppress(NameTakenError):  # a set of somebody else runs no bookie of ours
            return await self._is_fenced(bookie_id)
        return not await self._pods(bookie_id)
