"""Faults that wait for their moment: they meet it, and break no promise of the product."""

from dataclasses import replace

import pytest
from bookie.testing.simulation.aimed import ANSWERS, PLACES
from bookie.testing.simulation.aimed_strokes import AFTER, AIMED, PAUSES
from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie.testing.simulation.plan_choice import SECOND_FROM, plan_of
from bookie.testing.simulation.world import simulate

CALM = Scale(bookies=4, askers=1, load_s=3.0, entries=20, flush_s=60.0, patience_s=0.1)
SYNCED = replace(CALM, mode="sync")


def story(scale: Scale, *faults: Fault) -> str:
    """What happened, of a plan that must break no rule."""
    verdict = simulate(Plan(5, scale, faults), with_lines=True)
    assert verdict.violations == ()
    return "\n".join(verdict.lines)


def test_who_passes_a_place_stops_there_and_goes_on_later() -> None:
    told = story(CALM, Fault(0.5, "pause", lasts_s=0.5, size=PAUSES["writer"]))
    assert "writer-0 pauses: writer: metadata not written yet" in told


@pytest.mark.parametrize("what", ["add", "fence"])
def test_power_goes_just_after_an_answer(what: str) -> None:
    cut = Fault(1.0, "cut-answer", 0, 0, 0.1, AFTER[what], "member")
    assert "crashes after its answer" in story(SYNCED, cut, Fault(1.1, "recover-now"))


@pytest.mark.parametrize("kind", ["crash-boot", "wipe-boot", "cut-checkpoint", "cut-stop"])
def test_power_goes_within_a_boot_a_checkpoint_and_a_stop(kind: str) -> None:
    assert "crashes before" in story(CALM, Fault(1.0, kind, 0, 1, 0.1, 0.1, "member"))


def test_a_boot_is_told_to_stop_in_the_midst_of_it() -> None:
    assert "is told to stop before" in story(CALM, Fault(1.0, "stop-boot", 0, 1, 0.1, 0.3))


def test_a_torn_ensemble_changes() -> None:
    scale = replace(CALM, bookies=5, pause_s=0.01, pipeline=8, entries=150)
    assert story(scale, Fault(1.0, "torn", 0, 0, 0.4, 0.5)).count(" OPEN ") > 1


def test_a_fault_means_a_member_of_the_ledger_whose_writer_rests() -> None:
    told = story(CALM, Fault(1.0, "idle-client", lasts_s=1.0), Fault(1.2, "kill", aim="spare"))
    spare = next(line for line in told.splitlines() if "fault kill" in line).split()[-1]
    ledger = [line for line in told.splitlines() if " OPEN " in line and float(line[:8]) < 1.2][-1]
    assert spare not in ledger


def test_a_newcomer_is_meant_only_when_there_is_one() -> None:
    assert "fault kill" not in story(CALM, Fault(1.0, "kill", aim="newcomer"))


def test_sizes_choose_the_places_and_answers_of_their_names() -> None:
    whose = {name: PLACES[int(size * len(PLACES))][0] for name, size in PAUSES.items()}
    assert all(name in whose[name] or name in ("recoverer", "result") for name in PAUSES)
    assert {name: ANSWERS[int(size * 10)] for name, size in AFTER.items()} == {n: n for n in AFTER}


def test_three_hundred_seeds_have_every_aimed_stroke() -> None:
    scales = [plan_of(seed).scale for seed in range(SECOND_FROM, SECOND_FROM + 300)]
    assert len({scale.payload_bytes for scale in scales}) > 2
    assert len(AIMED) < 300 / 4
