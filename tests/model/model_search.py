"""Breadth-first search of a whole model, and backward reachability over what was found.

Breadth first, so the first violation met is a shortest one. Edges are kept as flat arrays of state
numbers; the path to a state is made again from the numbers of its ancestors.
"""

import time
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from model_ledger import SAFETY, LedgerModel
from model_state import State


@dataclass(slots=True)
class Found:
    """What a search saw. `path`: canonical states from the start to the violation, or to the first
    state that is stuck, inclusive."""

    violation: str = ""
    path: list[State] = field(default_factory=list)
    states: int = 0
    edges: int = 0
    depth: int = 0
    seconds: float = 0.0
    """Of one core."""
    is_complete: bool = False
    stuck: int = 0
    """States within the budget from which no CLOSED state can be reached."""
    waiting: int = 0
    """States beyond the budget from which only a report of a possible loss can be reached."""
    unreported: int = 0
    """States from which neither can be reached."""

    @property
    def steps(self) -> int:
        return len(self.path) - 1 if self.path else 0

    @property
    def is_right(self) -> bool:
        return self.is_complete and not (self.violation or self.stuck or self.unreported)


class Search:
    """One exploration of a model, up to its end, a violation, or `states_max`."""

    def __init__(
        self,
        model: LedgerModel,
        *,
        properties: Collection[str] = SAFETY,
        liveness: bool = True,
        states_max: int | None = None,
    ) -> None:
        self._model = model
        self._properties = properties
        self._liveness = liveness
        self._states_max = states_max
        self.states: list[State] = []
        self._parents = array("i")
        self._sources = array("i")
        self._targets = array("i")

    def run(self) -> Found:
        started = time.process_time()
        found = self._explore()
        if self._liveness and found.is_complete:
            self._look_back(found)
        found.seconds = time.process_time() - started
        return found

    def _explore(self) -> Found:
        model, found = self._model, Found()
        start = model.canonical(model.initial())
        numbers = {start: 0}
        self.states.append(start)
        self._parents.append(-1)
        at, level_end = 0, 1
        while at < len(self.states):
            if at == level_end:
                found.depth, level_end = found.depth + 1, len(self.states)
            if self._states_max is not None and at >= self._states_max:
                break
            state = self.states[at]
            is_closed = model.is_closed(state)
            for after in model.successors(state):
                number = numbers.get(after)
                if number is None:
                    number = numbers[after] = len(self.states)
                    self.states.append(after)
                    self._parents.append(at)
                    found.violation = self._judge(state, after, is_new=True)
                elif is_closed and state[0] != after[0]:
                    found.violation = self._judge(state, after, is_new=False)
                if self._liveness:
                    self._sources.append(at)
                    self._targets.append(number)
                found.edges += 1
                if found.violation:
                    found.states, found.depth = len(self.states), found.depth + 1
                    found.path = [*self._path_to(at), after]
                    return found
            at += 1
        found.states, found.is_complete = len(self.states), at == len(self.states)
        return found

    def _judge(self, before: State, after: State, *, is_new: bool) -> str:
        said = self._model.broken_step(before[0], after[0])
        if not said and is_new:
            said = self._model.violation(after)
        return said if said in self._properties else ""

    def _path_to(self, number: int) -> list[State]:
        path = []
        while number >= 0:
            path.append(self.states[number])
            number = self._parents[number]
        return path[::-1]

    # Liveness
    def _look_back(self, found: Found) -> None:
        model = self._model
        can_close = self._reaching(model.is_closed)
        if all(can_close):
            return
        can_tell = self._reaching(lambda s: model.is_closed(s) or model.is_reported(s))
        for number, state in enumerate(self.states):
            if not can_close[number]:
                if model.is_within_budget(state):
                    found.stuck += 1
                    found.path = found.path or self._path_to(number)
                else:
                    found.waiting += 1
            if not can_tell[number]:
                found.unreported += 1
                found.path = found.path or self._path_to(number)

    def _reaching(self, is_goal: Callable[[State], bool]) -> bytearray:
        """Which states can reach a goal: the search backwards over all edges."""
        before = self._backwards()
        reached = bytearray(len(self.states))
        front = [number for number, state in enumerate(self.states) if is_goal(state)]
        for number in front:
            reached[number] = 1
        while front:
            for number in before(front.pop()):
                if not reached[number]:
                    reached[number] = 1
                    front.append(number)
        return reached

    def _backwards(self) -> Callable[[int], Iterable[int]]:
        """The sources of the edges into a state, by counting sort over the targets."""
        starts = array("i", bytes((len(self.states) + 1) * self._targets.itemsize))
        for target in self._targets:
            starts[target + 1] += 1
        for number in range(len(self.states)):
            starts[number + 1] += starts[number]
        free, sorted_sources = array("i", starts), array("i", self._sources)
        for source, target in zip(self._sources, self._targets, strict=True):
            sorted_sources[free[target]] = source
            free[target] += 1
        return lambda number: sorted_sources[starts[number] : starts[number + 1]]
