"""The simulation: the same seed is the same history, right code passes, planted bugs do not."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from bookie.ids import EntryId
from bookie.protocol.admission import LedgerFacts
from bookie.protocol.status import Status
from bookie.repair.look import audit
from bookie.server import operations
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.maintenance import Maintenance
from bookie.storage.storage import Storage
from bookie.testing.simulation import judge
from bookie.testing.simulation.bookies import is_torn
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.loop import SimLoop, Stuck
from bookie.testing.simulation.network import Network, Weather
from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie.testing.simulation.plan_choice import KINDS, MENDS_FROM, SECOND_FROM, plan_of
from bookie.testing.simulation.shrink import rule_of, shrink
from bookie.testing.simulation.world import Verdict, simulate

KILL = Plan(7, Scale(readers=2, recoverers=2, entries=1000), (Fault(4.0, "kill", 0, 0, 0.5),))

FORGETFUL = Plan(
    12,
    Scale(
        bookies=3, readers=3, recoverers=3, askers=1, entries=1000,
        burst=8, pause_s=0.05, repair_s=6.0, flush_s=60.0,
    ),
    tuple(Fault(2.0 + 2 * n, "kill", 0, 0, 0.2) for n in range(4)),
)  # fmt: skip
"""One bookie that forgets again and again, in a cluster that cannot do without it."""

MENDED = Plan(3, Scale(repair_s=0.5, mends_every=1, entries=1000))
"""Nothing goes wrong, and every look of the repairer is a repair of every ledger."""


def loop() -> SimLoop:
    network = Network(random.Random(1), Weather())
    network.loop = SimLoop(network, random.Random(1))
    return network.loop


ONCE_FOUND_SOMETHING = [217, 1437, 4375, 4955, 7982, 12251, 15749, 18971, 19807, 20916]


@pytest.mark.parametrize("seed", [3, 12, 13, 18, 23, 34, *ONCE_FOUND_SOMETHING])
def test_the_product_keeps_every_rule(seed: int) -> None:
    assert simulate(plan_of(seed)).violations == ()


@pytest.mark.parametrize(
    ("left", "torn"),
    [
        (lambda disk: disk.image(lambda *_: True), True),
        (lambda disk: disk.image(lambda *_: False), False),
        (lambda disk: disk.kill(), False),
    ],
)
def test_a_log_is_torn_where_a_power_cut_left_unsynced_bytes(
    left: Callable[[MachineDisk], MachineDisk], torn: bool
) -> None:
    with closing(loop()) as machine:
        disk, folder = MachineDisk(machine), Path("/d") / LOG_DIRECTORY
    disk.make_directory(folder)
    file = disk.create(folder / "1.log")
    file.pwrite([b"synced"], 0)
    file.fdatasync()
    disk.sync_directory(folder)
    file.pwrite([b"not"], 6)
    assert is_torn(disk, left(disk)) is torn


def test_the_same_plan_is_the_same_history() -> None:
    assert simulate(KILL).digest == simulate(KILL).digest


def test_another_seed_is_another_history() -> None:
    assert simulate(KILL).digest != simulate(replace(KILL, seed=8)).digest


def test_the_history_does_not_depend_on_the_hash_seed() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bookie.testing.simulation", "--seed", "14", "--quiet"],
        env=os.environ | {"PYTHONHASHSEED": "99"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert simulate(plan_of(14)).digest in told.stdout


def test_a_crash_is_noticed_and_repaired_within_a_simulation() -> None:
    verdict = simulate(KILL, with_lines=True)
    assert any("repair repaired ('bookie-0',): exit 0" in line for line in verdict.lines)
    assert verdict.acked > 100 and verdict.read > 100


def test_every_ledger_is_mended_while_nothing_is_marked_and_writers_go_on() -> None:
    verdict = simulate(MENDED, with_lines=True)
    healing = next(n for n, line in enumerate(verdict.lines) if line.endswith("healing"))
    assert any("repaired every ledger: exit 0" in line for line in verdict.lines[:healing])
    assert verdict.violations == () and verdict.acked > 100


def test_seeds_of_before_the_mends_keep_their_plans() -> None:
    assert {plan_of(seed).scale.mends_every for seed in (1, 99, SECOND_FROM, MENDS_FROM - 1)} == {0}
    assert {plan_of(MENDS_FROM + n).scale.mends_every for n in range(60)} == {1, 2, 4}


def test_a_mend_that_copies_beyond_what_is_acknowledged_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "must_exist_through", lambda _ledger, *, lac: EntryId(lac + 1))
    (first, *_others) = simulate(plan_of(MENDS_FROM + 16)).violations
    assert "which is open and whose writer has sent no LAC above" in first


def test_a_bookie_that_denies_what_it_forgot_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(facts: LedgerFacts, **_options: bool) -> Status:
        return Status.NO_SUCH_ENTRY

    monkeypatch.setattr(operations, "absent_status", deny)
    assert any("denied" in violation for violation in simulate(FORGETFUL).violations)


def test_a_bookie_that_forgets_fences_and_boundary_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Storage, "boundary", lambda _self: None)
    monkeypatch.setattr(Maintenance, "mark", lambda *_args, **_options: None)
    assert simulate(KILL).violations


def test_a_repair_that_copies_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "HEAL_S", 5.0)

    async def nothing(_self: object, outcome: object, _look: object) -> object:
        return outcome

    monkeypatch.setattr("bookie.repair.mend.ledger_repair.LedgerRepair._copy", nothing)
    found = simulate(KILL).violations
    assert any("marks" in violation for violation in found)


def test_a_plan_survives_its_json() -> None:
    assert all(Plan.from_json(plan_of(seed).to_json()) == plan_of(seed) for seed in range(50))


def test_an_old_seed_keeps_its_plan() -> None:
    drawn = hashlib.sha256()
    for plan in map(plan_of, range(1, 3000)):
        scale = plan.scale  # fields that came later have their defaults
        drawn.update(repr((plan.keeps_budget, scale.bookies, scale.logs, scale.work_s)).encode())
        drawn.update(repr([astuple(fault)[:6] for fault in plan.faults]).encode())
    assert drawn.hexdigest()[:16] == "d68c3896e5b57924"


def test_every_kind_of_fault_comes_up_in_a_thousand_seeds() -> None:
    assert {fault.kind for seed in range(1000) for fault in plan_of(seed).faults} == set(KINDS)


def verdict_of(plan: Plan) -> Verdict:
    """Fails as long as the second fault and a reader are there."""
    fails = any(fault.at_s == 2.0 for fault in plan.faults) and plan.scale.readers > 0
    return Verdict(plan, ("at 1.0 s: a rule",) if fails else (), "", 0.0, 0, 0, 0)


def test_shrinking_keeps_only_what_a_failure_needs() -> None:
    faults = tuple(Fault(float(n), "kill") for n in range(8))
    small = shrink(Plan(1, Scale(writers=2), faults), run=verdict_of, say=lambda _line: None)
    assert [fault.at_s for fault in small.faults] == [2.0]
    assert (small.scale.writers, small.scale.readers, small.scale.bookies) == (1, 1, 3)


def test_violations_of_one_rule_are_alike_whatever_their_numbers() -> None:
    assert rule_of("at 3.1 s: ledger 4 was cut at 17") == rule_of("at 9.9 s: ledger 1 was cut at 2")


def test_time_passes_only_when_nothing_is_to_do() -> None:
    made = loop()
    made.run_until_complete(asyncio.sleep(3600.0))
    assert made.time() == 3600.0
    made.close()


def test_waiting_for_what_never_comes_is_noticed() -> None:
    made = loop()
    with pytest.raises(Stuck, match="everybody waits"):
        made.run_until_complete(made.create_future())
    made.close()
