"""One pass: observe, plan, publish, act. The only writer of a cluster's status.

Level-triggered: events only wake it, and a pass needs nothing but the object it is given, so that
it may be killed anywhere and started again.
"""

from bookie_operator.apply import Applier
from bookie_operator.control import Control
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observe import Observer
from bookie_operator.plan import plan
from bookie_operator.platform import Platform


class Reconciler:
    """The loop body of one cluster."""

    def __init__(self, platform: Platform, observer: Observer, control: Control) -> None:
        self._platform = platform
        self._observer = observer
        self._applier = Applier(platform, control)
        self._has_published = False

    async def run_pass(self, cluster: BookieCluster) -> ClusterStatus:
        """The status after one pass over `cluster` (whose status is the previous pass's)."""
        observed = await self._observer.observe(cluster)
        made = plan(cluster, observed, cluster.status)
        # Status first: an incident must be on record before anything is done about it.
        if made.status != cluster.status or not self._has_published:
            self._has_published = True
            await self._platform.publish(cluster.model_copy(update={"status": made.status}))
        await self._platform.settle(cluster, made.status)
        for name, task in made.tasks.items():
            await self._platform.publish_task(name, task)
        for event in made.events:
            await self._platform.record(event)
        for action in made.actions:
            done = await self._applier.apply(action, observed=observed, store=self._observer.store)
            if not done:
                break
        return made.status
