"""The person in front of the operator: writes other specs, hands in tasks, approves when asked.

Nobody else may do what the operator leaves to people; and a person does nothing but what
Kubernetes' objects allow.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from bookie.testing.simulation.history import History
from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.status import NOT_REREPLICATED
from bookie_operator.model.task import BookieTask, TaskType
from bookie_operator.model.transition import check_transition
from planned_plan import Wish
from planned_platform import SimPlatform

LOOKS_S: Final = 1.0
IS_LONG_S: Final = 600
"""A delay that is more than a simulation has: then the person asks."""
THINKS_S: Final = 3.0
"""How long something is refused before the person decides."""
PERSONS: Final = frozenset({"MultipleBookiesChanged", "AwaitingApproval", "PossibleDataLoss"})
"""Refusals of a cookie fix that ask for a person's word; the disks were replaced for good."""
MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "memory": {"journalWriteData": False, "ack": "memory"},
    "sync": {"journalWriteData": False, "ack": "sync"},
    "journal": {"journalWriteData": True},
}


class Person:
    """See the module. `sleep`: lets the operator's process stop for so many seconds. `lose`: takes
    a bookie's machine away for good; False where that would be more than can be borne."""

    def __init__(
        self,
        platform: SimPlatform,
        history: History,
        spec: Mapping[str, Any],
        *,
        machines: int,
        sleep: Callable[[float], None],
        lose: Callable[[str], bool],
    ) -> None:
        self._platform = platform
        self._history = history
        self._spec = dict(spec)
        self._machines = machines
        self._sleep = sleep
        self._lose = lose
        self._lost: set[int] = set()
        self._asked = ""
        """The last task for the ledgers of one that is lost; empty: there was none."""
        self._tasks = 0
        self._approved: set[str] = set()

    async def wish(self, wishes: Sequence[Wish]) -> None:
        """Each in its time."""
        loop = asyncio.get_running_loop()
        for wish in wishes:
            await asyncio.sleep(max(0.0, wish.at_s - loop.time()))
            self._history.note(f"a person wishes {wish.kind} {wish.who}")
            await self._come_true(wish)

    def be_content(self) -> None:
        """What was put off is not put off for ever."""
        if self._spec.get("paused"):
            self._write(paused=False)
        if self._lost - self._excluded:
            self._exclude(self._excluded | self._lost)

    async def _come_true(self, wish: Wish) -> None:
        ensemble = self._spec["quorum"]["ensemble"]
        bookies = self._platform.cluster.spec.bookie_ids
        match wish.kind:
            case "settings":
                self._write(flushIntervalSeconds=round(0.5 + wish.size * 20, 2))
            case "mode":
                self._write(**MODES[sorted(MODES)[wish.who % len(MODES)]])
            case "scale":
                self._write(replicas=ensemble + wish.who % (self._room(self._excluded) + 1))
            case "exclude":
                number = wish.who % self._machines
                if number not in self._lost:
                    self._exclude(self._excluded ^ {number})
            case "lose":
                bookie = bookies[wish.who % len(bookies)]
                number = by_number(bookie)[1]
                if self._room({*self._excluded, number}) >= 0 and self._lose(bookie):
                    self._lost.add(number)
                    await asyncio.sleep(wish.size * 4.0)
                    self._exclude({*self._excluded, number})
            case "pause":
                self._write(paused=True)
                await asyncio.sleep(wish.size * 4.0)
                self._write(paused=False)
            case "sleep":
                self._sleep(wish.size * 5.0)
            case "replace-disk":
                disks = self._spec["storage"]["disks"]
                disk = disks[int(wish.size * len(disks))]["name"]
                self.hand_in(wish.kind, bookie=bookies[wish.who % len(bookies)], disk=disk)
            case "repair-of-one":
                self.hand_in("repair", bookie=bookies[wish.who % len(bookies)])
            case _:
                self.hand_in(wish.kind)

    @property
    def _excluded(self) -> set[int]:
        return set(self._spec.get("excludedOrdinals", ()))

    def _room(self, excluded: Collection[int]) -> int:
        """Bookies that there may be beyond an ensemble, on as many machines as there are."""
        return self._machines - len(excluded) - int(self._spec["quorum"]["ensemble"])

    def _exclude(self, excluded: Collection[int]) -> None:
        room = self._room(excluded)
        if room < 0:
            return
        most = int(self._spec["quorum"]["ensemble"]) + room
        replicas = min(self._spec["replicas"], most)
        self._write(excludedOrdinals=sorted(excluded), replicas=replicas)

    def _write(self, **change: Any) -> None:
        self._spec |= change
        spec = ClusterSpec.model_validate(self._spec)
        check_transition(self._platform.cluster.spec, spec)
        self._platform.change(spec)

    def hand_in(self, kind: str, **what: Any) -> str:
        """A task; its name."""
        self._tasks += 1
        name = f"{kind}-{self._tasks}"
        spec = {"cluster": "sim", "type": TaskType(kind), **what}
        self._platform.hand_in(
            BookieTask.model_validate({"metadata": {"name": name}, "spec": spec})
        )
        return name

    async def look_after_refusals(self) -> None:
        """For ever: approves by a task what the operator may not decide alone."""
        while True:
            await asyncio.sleep(LOOKS_S)
            status = self._platform.cluster.status
            for refused in status.blocked:
                age = self._platform.now() - refused.since
                if refused.predicate == NOT_REREPLICATED and age.total_seconds() >= THINKS_S:
                    self._ask_for_new_members(refused.bookie)
                is_fix = refused.action == "CookieFix"
                if is_fix and refused.predicate in PERSONS and age.total_seconds() >= THINKS_S:
                    self._approve(refused.bookie, refused.message)

    def _ask_for_new_members(self, bookie: str) -> None:
        """Where the operator would wait for longer than a simulation has."""
        if self._spec.get("lostBookieDelaySeconds", 0) < IS_LONG_S:
            return
        if self._asked and not self._platform.task(self._asked).status.phase.is_final:
            return
        self._asked = self.hand_in("rereplicate", bookie=bookie)

    def _approve(self, bookie: str, message: str) -> None:
        """The plan as the refusal names it."""
        _, _, named = message.partition("approve plan ")
        plan_id = named.split(" ", 1)[0]
        if plan_id and plan_id not in self._approved:
            self._approved.add(plan_id)
            self._history.note(f"a person approves {plan_id} of {bookie}")
            self.hand_in("approve-cookie-fix", bookie=bookie, planId=plan_id, approvedBy="a person")
