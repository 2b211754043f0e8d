"""The operator in the simulation: it brings everything back alone, and planted bugs do not."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import planned_judge
import planner_claims
import pytest
from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.observed import Bookie
from bookie_operator.plan.states import GONE, _impairment
from planned_plan import PlannedPlan, Wish, plan_of, spec_of
from planned_world import run, run_seed

HERE = Path(__file__).parent


@pytest.mark.parametrize("seed", range(1, 21))
def test_the_operator_alone_brings_everything_back(seed: int) -> None:
    assert run_seed(seed).violations == ()


def test_the_history_does_not_depend_on_the_hash_seed() -> None:
    told = subprocess.run(
        [sys.executable, HERE, "--seed", "3", "--quiet"],
        env=os.environ | {"PYTHONHASHSEED": "99", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run_seed(3).digest in told.stdout


def test_bookies_are_started_repaired_and_verified_by_the_planner() -> None:
    lines = run(plan_of(33), with_lines=True).lines
    for done in ("did StartBookie", "CookieFixApproved", "LimboCleared", "all is well"):
        assert any(done in line for line in lines)


def quiet(wishes: tuple[Wish, ...] = (), *, load_s: float = 20.0, entries: int = 60) -> PlannedPlan:
    """No faults, only what people ask for."""
    made = Scale(load_s=load_s, entries=entries)
    spec = spec_of(made, replicas=made.bookies, audit_s=5, fixes={})
    return PlannedPlan(Plan(7, made), spec, tick_s=0.1, wishes=wishes)


def test_a_scrub_after_a_scale_down_is_clean_though_the_cookie_of_who_left_stays() -> None:
    lines = run(quiet((Wish(4.0, "scale"), Wish(15.0, "scrub"))), with_lines=True).lines
    assert any("event BookieRemoved bookie-3" in line for line in lines)
    assert any("job sim-scrub-1 ended: 0" in line for line in lines)


def losing(delay_s: int, *wishes: Wish) -> PlannedPlan:
    """One machine is lost for good while clients write, and its number is excluded."""
    made = quiet((Wish(4.0, "lose", 1, 0.5), *wishes), load_s=12.0)
    return replace(made, spec=dict(made.spec) | {"lostBookieDelaySeconds": delay_s})


@pytest.mark.parametrize("delay_s", [1, 3600])
def test_a_bookie_whose_machine_is_lost_is_given_up_with_nothing_missing(delay_s: int) -> None:
    verdict = run(losing(delay_s), with_lines=True)
    assert verdict.violations == ()
    assert any("event BookieRemoved bookie-1" in line for line in verdict.lines)


# Planted bugs
KILLED = (Fault(4.0, "kill", 0, lasts_s=0.2),)
AWAY = (Fault(4.0, "kill", 0, lasts_s=5.0),)
WIPED = (*AWAY, Fault(4.2, "replace-disk", 1, size=0.1))
ROLL = (Wish(4.25, "settings"),)


def planted(
    monkeypatch: pytest.MonkeyPatch, where: str, bug: Callable[..., Any], plan: PlannedPlan
) -> str:
    """What is violated with this bug in the planner, by the word of the simulation's judge."""
    monkeypatch.setattr(planner_claims, "check", lambda *_: None)
    monkeypatch.setattr(planned_judge, "WELL_S", 40.0)
    module, _, name = where.partition(".")
    target = import_module(f"bookie_operator.plan.{module}")  # its attribute may be a function
    *owners, name = name.split(".")
    for owner in owners:
        target = getattr(target, owner)
    monkeypatch.setattr(target, name, bug)
    return " ".join(run(plan).violations)


def stricken(faults: tuple[Fault, ...], wishes: tuple[Wish, ...] = ()) -> PlannedPlan:
    made = quiet(wishes, load_s=10.0, entries=1000)
    return replace(made, plan=replace(made.plan, faults=faults, keeps_budget=faults is not WIPED))


def test_restarts_while_somebody_is_in_limbo_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def marks_are_nothing(bookie: Bookie, *, state: BookieState, marks: int) -> str | None:
        return _impairment(bookie, state=state, marks=0)

    plan = stricken(KILLED, ROLL)
    found = planted(monkeypatch, "states._impairment", marks_are_nothing, plan)
    assert "came to restart" in found and "in limbo" in found


def test_restarts_while_somebody_is_down_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def down_is_nothing(bookie: Bookie, *, state: BookieState, marks: int) -> str | None:
        return None if state in GONE else _impairment(bookie, state=state, marks=marks)

    found = planted(monkeypatch, "states._impairment", down_is_nothing, stricken(AWAY, ROLL))
    assert "came to restart" in found and "down" in found


def test_cookie_fixes_beyond_the_budget_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planted(monkeypatch, "budget.Budget.refusal", lambda *_: None, stricken(WIPED))
    assert "approved a cookie fix" in found


def test_a_dead_bookie_that_leaves_with_copies_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planted(monkeypatch, "drains.why_not_made_good", lambda *_: "", losing(3600))
    assert "which have left" in found


def test_a_repair_that_never_begins_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planted(monkeypatch, "repair._next_due", lambda *_: None, stricken(KILLED))
    assert "not well 40 s after healing" in found


def test_verified_by_an_audit_that_is_too_old_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    away = stricken((Fault(4.0, "clean-restart", 0, lasts_s=3.0),))
    hourly = {"audit": dict(away.spec["audit"]) | {"schedule": "@hourly"}}
    away = replace(away, spec=dict(away.spec) | hourly)
    found = planted(monkeypatch, "conditions.is_younger", lambda *_: True, away)
    assert "DurabilityVerified" in found
