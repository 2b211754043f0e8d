"""One chaos run on Kubernetes: rounds of strikes under load, and after each part a verdict."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from chaos_plan import Kind, Round, Strike, rounds
from harness.fleet import pod_name
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER
from harness.story import Story

PART_S: Final = 900.0
"""After so long a verdict is taken, and the judge begins again."""
JUDGED: Final = (
    *("--seconds", "7200", "--writers", "2", "--rate", "120"),
    *("--entries", "1500", "--layouts", "3/3/2,4/3/2,3/2/2"),
)
WHOLE_S: Final = 420.0
FLUSH_S: Final = (9, 10)
"""Settings that are rolled out by turns."""
Row = dict[str, Any]


@dataclass(slots=True)
class Chaos:
    """What is reported of it: counts of strikes, rounds and verdicts."""

    story: Story
    seed: int
    struck: Counter[str] = field(default_factory=Counter)
    together: Counter[int] = field(default_factory=Counter)
    """Rounds by how many strikes they had."""
    verdicts: list[Row] = field(default_factory=list)
    slowest_round_s: float = 0.0
    _flush: int = 0

    def run(self, minutes: float) -> None:
        """An AssertionError says what did not hold."""
        story = self.story
        story.up()
        story.write(prefill=(60, 30), options=JUDGED, seed=self.seed)
        end, part = time.monotonic() + 60 * minutes, time.monotonic() + PART_S
        for one in rounds(self.seed):
            if time.monotonic() > end:
                break
            self._strike(one)
            if time.monotonic() > part:
                self._verdict()
                story.judge_begins(seed=self.seed + one.number, options=JUDGED)
                part = time.monotonic() + PART_S
        story.numbers["rounds"] = self.together.total()
        story.nothing_is_lost()
        self._keep_verdict()

    def _strike(self, one: Round) -> None:
        began = time.monotonic()
        time.sleep(one.calm_s)  # the load's own time: nothing is waited for
        epochs = {strike.bookie: self.story.fleet.epoch(strike.bookie) for strike in one.losses}
        print(f"chaos: round {one.number}: {', '.join(map(str, one.strikes))}", flush=True)
        threads = []
        for strike in one.strikes:
            time.sleep(strike.after_s)
            act = _Act(self, strike)
            act.start()
            threads.append(act)
            self.struck[strike.kind] += 1
        for act in threads:
            act.join()
        for act in threads:
            if act.error is not None:
                raise act.error
        self._is_whole_again(epochs)
        self.together[len(one.strikes)] += 1
        self.slowest_round_s = max(self.slowest_round_s, time.monotonic() - began)

    def _is_whole_again(self, epochs: dict[str, int]) -> None:
        """Every loss has an incident that was cleared, all serve, entries are acknowledged."""
        fleet = self.story.fleet
        for bookie, epoch in epochs.items():
            fleet.wait_cleared(bookie, after=epoch, seconds=WHOLE_S)
        fleet.wait_whole(seconds=WHOLE_S)
        self.story.load.goes_on(seconds=WHOLE_S)

    def _verdict(self) -> None:
        """Of all that the judge ever noted: read back, and every copy asked for."""
        self.story.judge_ends()
        self.story.every_copy_is_there()
        self._keep_verdict()

    def _keep_verdict(self) -> None:
        numbers = {name: self.story.numbers[name] for name in ("judged", "copies_judged", "copies")}
        self.verdicts.append(numbers)
        print(f"chaos: whole: {numbers}", flush=True)

    def settings(self) -> Object:
        self._flush += 1
        return {"flushIntervalSeconds": FLUSH_S[self._flush % len(FLUSH_S)]}


class _Act(threading.Thread):
    """One strike, which may last while the next begins."""

    def __init__(self, chaos: Chaos, strike: Strike) -> None:
        super().__init__(daemon=True)
        self._chaos = chaos
        self._strike = strike
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            acts = ACTS[self._strike.kind]
            acts(self._chaos, self._strike)
        except Exception as error:
            self.error = error


def _lasting(context: Callable[[str], AbstractContextManager[None]], one: Strike) -> None:
    with context(one.bookie):
        time.sleep(one.seconds)


def _restart(chaos: Chaos, one: Strike) -> None:
    """It may wait for others, or fail where its bookie goes down by another strike: both are fine,
    what counts is the fleet after it."""
    name = f"restart-{one.bookie}-{chaos.struck.total()}"
    chaos.story.fleet.ask(name, {"type": "restart", "bookie": one.bookie}, seconds=WHOLE_S)


def _zookeeper(chaos: Chaos, _one: Strike) -> None:
    kube, name = chaos.story.kube, f"{CLUSTER}-zookeeper-0"
    uid = (kube.get("pod", name) or {"metadata": {"uid": ""}})["metadata"]["uid"]
    kube("delete", "pod", name, "--grace-period=0", "--force")

    def is_back() -> bool:
        pod = kube.get("pod", name) or {"metadata": {"uid": uid}}
        return bool(pod["metadata"]["uid"] != uid)

    wait_for("another pod of ZooKeeper", is_back, seconds=60.0)


ACTS: Final[dict[Kind, Callable[[Chaos, Strike], object]]] = {
    Kind.KILL: lambda chaos, one: chaos.story.faults.kill(one.bookie),
    Kind.FORCE: lambda chaos, one: chaos.story.faults.hang_and_force_delete(one.bookie),
    Kind.DISK: lambda chaos, one: chaos.story.faults.delete_claims(one.bookie, "ledger-1"),
    Kind.OPERATOR: lambda chaos, _one: chaos.story.operator.kill(),
    Kind.ZOOKEEPER: _zookeeper,
    Kind.CUT_OFF: lambda chaos, one: _lasting(chaos.story.faults.cut_off, one),
    Kind.HANG: lambda chaos, one: _lasting(chaos.story.faults.hung, one),
    Kind.EVICT: lambda chaos, one: chaos.story.kube.delete("pod", pod_name(one.bookie)),
    Kind.RESTART: _restart,
    Kind.SETTINGS: lambda chaos, _one: chaos.story.fleet.change(chaos.settings()),
}
