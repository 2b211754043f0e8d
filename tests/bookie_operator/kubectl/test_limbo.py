"""What is told of limbo, bookie by bookie; and the wait until there is none."""

from typing import Any

import pytest
from bookie_operator.kubectl.client import KubectlError
from bookie_operator.kubectl.limbo import Limbo, limbo_of, limbo_view, wait
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.looks import OLD_AFTER
from kubectl_lab import FakeLab, tree_of
from operator_scenes import at, cluster
from rich.console import Console

NOW = at(100)
STAMP, OLD, AHEAD = (when.isoformat() for when in (NOW, NOW - OLD_AFTER, NOW + OLD_AFTER))


def said(status: str, *, generation: int = 1, message: str = "") -> dict[str, Any]:
    """The condition that tells of limbo."""
    why = {"reason": "Why", "message": message, "observedGeneration": generation}
    return {"type": "LimboPresent", "status": status, "lastTransitionTime": STAMP} | why


def found(condition: dict[str, Any] | None, **status: Any) -> BookieCluster:
    """A cluster of generation 1 with this condition."""
    tree = cluster().as_dict()
    tree["status"] = {"conditions": [condition] if condition else []} | status
    return BookieCluster.model_validate(tree)


def lines(of: BookieCluster) -> list[str]:
    screen = Console(width=300, highlight=False)
    with screen.capture() as drawn:
        screen.print(limbo_view(of, now=NOW))
    return [line.rstrip() for line in drawn.get().splitlines()]


@pytest.mark.parametrize(
    ("condition", "status", "known", "told"),
    [
        (said("False"), {}, "NONE", "no limbo"),
        (None, {}, "UNKNOWN", "not known: no operator has reported on it"),
        (said("Unknown"), {}, "UNKNOWN", "not known: Why"),
        (said("Unknown", message="who knows"), {}, "UNKNOWN", "not known: who knows"),
        (
            said("False", generation=0),
            {},
            "UNKNOWN",
            "not known: the spec has changed since the operator looked",
        ),
        (
            said("False"),
            {"lookedAt": OLD},
            "UNKNOWN",
            "not known: the operator has not looked at the cluster for 10m",
        ),
        (said("True"), {}, "PRESENT", "0 ledgers in limbo, 0 unchecked"),
        (said("True"), {"limbo": {"ledgers": 1}}, "PRESENT", "1 ledger in limbo, 0 unchecked"),
        (said("False"), {"limbo": {"unchecked": 2}}, "PRESENT", "0 ledgers in limbo, 2 unchecked"),
        (
            None,
            {"limbo": {"ledgers": 3, "oldestSince": at(40).isoformat()}},
            "PRESENT",
            "3 ledgers in limbo, 0 unchecked; the oldest for 60s",
        ),
    ],
)
def test_none_is_said_only_where_an_operator_says_it_of_now(
    condition: dict[str, Any] | None, status: dict[str, Any], known: str, told: str
) -> None:
    of = found(condition, **status)
    assert limbo_of(of, now=NOW) is Limbo[known]
    assert lines(of) == [f"BookieCluster demo  {told}"]


@pytest.mark.parametrize(
    ("looked", "known"),
    [(STAMP, "NONE"), (OLD, "UNKNOWN"), (AHEAD, "UNKNOWN")],
)
def test_what_was_looked_at_long_ago_or_in_the_future_is_not_none(looked: str, known: str) -> None:
    assert limbo_of(found(said("False"), lookedAt=looked), now=NOW) is Limbo[known]


def row(bookie: dict[str, Any], *incidents: dict[str, Any]) -> list[str]:
    """What is told of one bookie, column by column."""
    one = {"id": "b", "state": "Limbo", "bootEpoch": 4} | bookie
    happened = [{"kind": "UncleanShutdown", "bookie": "b"} | incident for incident in incidents]
    line = lines(found(said("True"), bookies=[one], incidents=happened))[-1]
    return line.split(maxsplit=6)


REPAIR = {"episode": "b-2", "state": "Failed", "message": "why"}
RUNNING = {"episode": "b-2", "state": "Running", "startedAt": at(93).isoformat()}
OPEN = {"detectedAt": at(93).isoformat(), "bootEpochAfter": 3}


@pytest.mark.parametrize(
    ("bookie", "incidents", "told"),
    [
        ({}, (), "0 0 - - -"),
        ({"repair": REPAIR}, (OPEN,), "0 0 - - -"),
        ({"limboLedgers": 2}, (), "2 0 - 4 -"),
        ({"uncheckedLedgers": 5}, (), "0 5 - 4 -"),
        ({"limboLedgers": 2, "bootEpoch": 0}, (), "2 0 - - -"),
        ({"limboLedgers": 2}, (OPEN,), "2 0 7s 3 -"),
        ({"uncheckedLedgers": 5}, (OPEN,), "0 5 7s 3 -"),
        ({"limboLedgers": 2}, (OPEN | {"outcome": "Superseded"},), "2 0 - 4 -"),
        ({"limboLedgers": 2}, (OPEN | {"outcome": "Cleared"}, OPEN), "2 0 7s 3 -"),
        ({"limboLedgers": 2}, (OPEN | {"bookie": "c"},), "2 0 - 4 -"),
        ({"limboLedgers": 2, "repair": REPAIR}, (), "2 0 - 4 failed: why"),
        ({"uncheckedLedgers": 5, "repair": REPAIR}, (), "0 5 - 4 failed: why"),
        ({"limboLedgers": 2, "repair": RUNNING}, (), "2 0 - 4 running for 7s"),
    ],
)
def test_since_when_and_what_repairs_it_are_told_of_a_bookie_with_marks(
    bookie: dict[str, Any], incidents: tuple[dict[str, Any], ...], told: str
) -> None:
    assert row(bookie, *incidents) == ["b", "Limbo", *told.split(maxsplit=4)]


def test_numbers_are_below_each_other_digit_by_digit() -> None:
    many = [{"id": "b", "state": "Limbo", "limboLedgers": n, "bootEpoch": n} for n in (7, 1234)]
    table = lines(found(said("True"), bookies=many))[2:]
    assert len({line.rstrip(" -").rindex(" 0 ") for line in table}) == 1
    assert len({len(line) for line in table}) == 1


@pytest.mark.parametrize(
    ("state", "colour"), [("Serving", 32), ("Limbo", 33), ("Refused", 31), ("Booting", 36)]
)
def test_a_state_has_its_colour(state: str, colour: int) -> None:
    of = found(said("False"), bookies=[{"id": "b", "state": state}])
    screen = Console(width=300, force_terminal=True, color_system="standard")
    with screen.capture() as drawn:
        screen.print(limbo_view(of, now=NOW))
    assert f"\x1b[{colour}m{state}" in drawn.get()


class TestWait:
    """Each change of the cluster comes about by a watch; the clock stands still."""

    def waited(self, lab: FakeLab, *changes: Any) -> tuple[BookieCluster, list[str]]:
        """The cluster at the end, and the phases that were told before."""
        lab.put_cluster("limbo")
        lab.later("demo", *changes)
        told: list[str] = []
        end = wait(
            lab.kubectl(),
            "demo",
            seconds=None,
            tell=lambda of: told.append(of.status.phase),
            clock=lambda: NOW,
        )
        return end, told

    def healed(self, **status: Any) -> dict[str, Any]:
        return {"status": tree_of("healthy")["status"] | status}

    @pytest.mark.parametrize(
        ("looked", "told"),
        [
            (STAMP, ["Repairing"]),
            (OLD, ["Repairing", "Before"]),
            (AHEAD, ["Repairing", "Before"]),
        ],
    )
    def test_it_ends_with_the_first_look_of_now_that_finds_none(
        self, lab: FakeLab, looked: str, told: list[str]
    ) -> None:
        before = self.healed(lookedAt=looked, phase="Before")
        end, phases = self.waited(lab, before, self.healed(lookedAt=STAMP, phase="After"))
        assert (end.status.phase, phases) == ("After" if len(told) > 1 else "Before", told)

    def test_what_has_none_already_is_not_waited_for(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        wait(lab.kubectl(), "demo", seconds=0.0, tell=pytest.fail, clock=lambda: NOW)
        assert not [call for call in lab.calls() if "--watch" in call["words"]]

    def test_without_time_it_is_told_as_it_is(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        end = wait(lab.kubectl(), "demo", seconds=0.0, tell=pytest.fail, clock=lambda: NOW)
        assert end.status.limbo.ledgers == 25

    def test_no_watch_is_longer_than_the_time_that_is_left(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        lab.later("demo", self.healed(lookedAt=STAMP))
        wait(lab.kubectl(), "demo", seconds=60.0, tell=lambda _: None, clock=lambda: at(100))
        [watch] = [call["words"] for call in lab.calls() if "--watch" in call["words"]]
        assert watch[-1] == "--request-timeout=60s"

    def test_a_cluster_that_is_deleted_is_waited_for_no_longer(self, lab: FakeLab) -> None:
        with pytest.raises(KubectlError, match="demo was deleted while it was waited for"):
            self.waited(lab, None)
