"""The simulation's world with the real operator in it, in the place of the simulation's own person.

Observe, plan, apply and status are the product's, unmodified, and so are the jobs; the bookies run
because the planner starts them. Faults strike as in every world, the operator included.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bookie.errors import BookieError
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.simulation.admin import dial
from bookie.testing.simulation.clients import Shared
from bookie.testing.simulation.judge import Judge
from bookie.testing.simulation.loop import SimLoop
from bookie.testing.simulation.network import Network
from bookie.testing.simulation.plan import Plan
from bookie.testing.simulation.surroundings import EPOCH_S
from bookie.testing.simulation.world import REPAIR, Role, Verdict, World, simulate
from bookie_operator.control import GrpcControl
from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.observe import Observer
from bookie_operator.plan.actions import Action, StartJob
from bookie_operator.reconcile import Reconciler
from planned_bookie import HostedBookie
from planned_jobs import Tree, process_name, run_job
from planned_judge import PlannedJudge
from planned_person import Person
from planned_plan import PlannedPlan, plan_of
from planned_platform import KILLED, Hands, SimPlatform
from planned_watch import Watch

BEGAN = datetime.fromtimestamp(EPOCH_S, UTC)


class PlannedWorld(World):
    """See the module."""

    def __init__(self, planned: PlannedPlan, plan: Plan, loop: SimLoop, network: Network) -> None:
        self._planned = planned
        super().__init__(plan, loop, network)
        hands = Hands(self.history.note, self._begin_job, self._end_process, self._give_up)
        cluster = BookieCluster.model_validate(_manifest(planned.spec))
        self.platform = SimPlatform(cluster, self._hosted, hands, clock=self._now)
        self._watch_operator = Watch(self.platform, self._hosted, self.history, self._now)
        self._jobs: set[str] = set()
        self._is_healed = False
        self._person = Person(
            self.platform,
            self.history,
            planned.spec,
            machines=plan.scale.bookies,
            sleep=partial(self._sleep, REPAIR),
            lose=self._lose,
        )

    def _now(self) -> datetime:
        """The operator's clock: it never jumps, as those of bookies may."""
        return BEGAN + timedelta(seconds=self._loop.time())

    @property
    def _hosted(self) -> list[HostedBookie]:
        return [one for one in self._bookies if isinstance(one, HostedBookie)]

    # Who is there
    def _bookie(self, name: str) -> HostedBookie:
        return self._bookie_of(
            name,
            partial(HostedBookie, clock=self._now, keeps_claims=self._planned.keeps_claims),
        )

    def _begin_all(self) -> None:
        super()._begin_all()
        self._wishing = self._loop.create_task(self._person.wish(self._planned.wishes))
        self._loop.create_task(self._person.look_after_refusals())

    def _heal(self) -> None:
        self._is_healed = True
        self._wishing.cancel()
        super()._heal()
        self._person.be_content()

    def _give_up(self, bookie: str) -> None:
        """What the operator cannot know yet: somebody else has forgotten since it looked. Else
        both would be gone at once, which no operator could help."""
        forgetful = self._scene.forgetful
        if self._is_healed:  # no fault is to come, and whoever has forgotten shows it
            return
        if others := forgetful.keys() - {bookie}:
            raise PreconditionError(f"{', '.join(sorted(others))} may have forgotten just now")
        forgetful.setdefault(bookie, False)

    def _lose(self, name: str) -> bool:
        """As much as a disk that is replaced: within the budget, until others hold what it held."""
        scene = self._scene
        doubtful = {one.name for one in self._hosted if one.marks or one.ended_in_doubt}
        if self._is_healed or len({*scene.forgetful, *doubtful, name}) > scene.budget:
            return False
        scene.forgetful[name] = False
        [bookie] = [one for one in self._hosted if one.name == name]
        bookie.is_lost = True
        bookie.crash(lambda disk: disk.kill())
        self.history.note(f"{name} is lost with its machine")
        return True

    def _repairer(self) -> Role:
        return self._operate

    async def _operate(self, shared: Shared, store: MetadataStore, name: str) -> None:
        """One life of the operator; all that it knows of earlier ones is in the status."""
        control = GrpcControl(dial=lambda _tls: dial(shared.network))

        async def opened(_url: str) -> MetadataStore:
            return store

        observer = Observer(self.platform, control, opener=opened, clock=self._now)
        reconciler = Reconciler(self.platform, observer, control, on_done=self._did)
        while True:
            try:
                await reconciler.run_pass(self.platform.cluster)
            except BookieError as error:
                self.history.note(f"{name}: the pass failed: {error}")
            except Exception as defect:
                self.history.violate(f"a defect of the operator: {defect!r}")
                raise
            await self.platform.wait(self._planned.tick_s)

    def _did(self, action: Action) -> None:
        self.history.note(f"did {type(action).__name__}")
        self._watch_operator.did(action)

    def _ledger_changed(
        self, ledger_id: LedgerId, metadata: LedgerMetadata | None, by: str
    ) -> None:
        super()._ledger_changed(ledger_id, metadata, by)
        self._watch_operator.ledger_changed(ledger_id, metadata)

    # Jobs
    def _begin_job(self, job: StartJob) -> str:
        name, has_begun = process_name(job), False
        told = partial(self.platform.job_ended, job.name)

        async def work(shared: Shared, store: MetadataStore, name: str) -> None:
            nonlocal has_begun
            if has_begun:  # who was killed is begun again, as clients are; a job is not
                told(KILLED, None, "")
                self._loop.call_soon(self._end_process, name)
                return
            has_begun = True
            await asyncio.sleep(self._planned.job_start_s)
            await run_job(job, shared, store, told=told)

        self._jobs.add(name)
        running = self._begin(name, work)
        running.add_done_callback(lambda _task: self._leaves(name, running))
        return name

    def _end_process(self, name: str) -> None:
        if name in self._clients:
            self._end_client(name)

    def _works_on(self, name: str) -> bool:
        return name == REPAIR or name in self._jobs

    def _judge(self) -> Judge:
        wanted = self.platform.cluster.spec.bookie_ids
        members = [bookie for bookie in self._hosted if bookie.name in wanted]
        return PlannedJudge(
            self.plan,
            members,
            self._shared,
            self._scene.counts,
            platform=self.platform,
            person=self._person,
        )


def _manifest(spec: Any) -> Tree:
    return {
        "apiVersion": "bookkeeper.bookie-operator.dev/v1alpha1",
        "kind": "BookieCluster",
        "metadata": {"name": "sim", "generation": 1},
        "spec": spec,
    }


def run(planned: PlannedPlan, *, with_lines: bool = False) -> Verdict:
    """The same plan gives the same verdict and the same hash, always."""
    begin: Callable[[Plan, SimLoop, Network], World] = partial(PlannedWorld, planned)
    return simulate(planned.plan, with_lines=with_lines, begin=begin)


def run_seed(seed: int) -> Verdict:
    """For pools of processes."""
    return run(plan_of(seed))
