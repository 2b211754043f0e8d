"""Reads and writes the BookieTasks of one cluster.

A task names its cluster. When the operator first sees it, it makes the cluster object its owner, so
that the task is deleted with the cluster.
"""

from collections.abc import Sequence

from bookie.errors import BookieError
from pydantic import ValidationError

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import mistakes_of
from bookie_operator.model.task import BookieTask
from bookie_operator.plan.actions import Event
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import TASK, Api, Object
from bookie_operator.platform.kubernetes.claims import very
from bookie_operator.platform.kubernetes.keeper import apply_each
from bookie_operator.platform.kubernetes.ownership import is_of, owning_cluster
from bookie_operator.platform.kubernetes.recorder import Recorder


class ClusterTasks:
    """Reads, binds and deletes them; their status is written by the platform."""

    def __init__(self, api: Api, recorder: Recorder) -> None:
        self._api = api
        self._recorder = recorder
        self._unbound: list[Object] = []
        """Tasks, as the last look saw them, that no cluster owns yet."""

    async def tasks(self, cluster: BookieCluster) -> Sequence[BookieTask]:
        """The tasks that can be read, by name; for each other one, an event says what is wrong."""
        tasks, unbound = [], list[Object]()
        for body in await self._api.list(TASK):
            if (body.get("spec") or {}).get("cluster") != cluster.metadata.name:
                continue
            if not is_of(body, cluster.metadata.uid):
                continue
            if not owning_cluster(body):
                unbound.append(body)
            try:
                tasks.append(BookieTask.model_validate(body))
            except ValidationError as error:  # one person's mistake stops nobody else's work
                mistakes = "; ".join(mistakes_of(BookieTask, error))
                what = f"{body['metadata']['name']}: {mistakes}"
                await self._recorder.tell(Event("TaskInvalid", what, type="Warning"), cluster)
        self._unbound = unbound
        return sorted(tasks, key=lambda task: task.metadata.name)

    async def bind(self, cluster: BookieCluster) -> dict[str, BookieError]:
        """Makes those of the last look the cluster's own; what could not be, by kind and name."""
        own = cluster.metadata
        # Whoever made it may have given it a controller.
        owner: Object = {**names.owner(own.name, own.uid), "controller": False}
        more = {"ownerReferences": [owner]}
        bodies = [{"metadata": very(body["metadata"]) | more} for body in self._unbound]
        return await apply_each(self._api, TASK, bodies)

    async def delete(self, name: str, *, uid: str) -> None:
        """Delete the task with this uid; another task of the same name is not deleted."""
        known = await self._api.get(TASK, name)
        if known is not None and known["metadata"]["uid"] == uid:
            await self._api.delete(TASK, known)
