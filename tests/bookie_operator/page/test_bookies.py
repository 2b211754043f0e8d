"""The bookies on the page: a column for what at least one has, and what stands in it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bookie_operator.model.status import ClusterStatus
from bookie_operator.page.bookies import HEADS, bookies_table
from parsed_page import Parsed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REPAIR = {"episode": "b-2", "state": "Running"}


def table(*bookies: dict[str, Any]) -> str:
    rows = [{"id": f"b{n}", "state": "Serving"} | facts for n, facts in enumerate(bookies)]
    status = ClusterStatus.model_validate({"bookies": rows})
    return bookies_table(status, id_of="demo", now=NOW)


def cell(of: str, **facts: Any) -> str:
    """What stands in this column of a bookie with these facts; empty too where it has none."""
    found = re.findall(rf'<td data-of="{of}">(.*?)</td>', table(facts))
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("facts", "more"),
    [
        ({}, []),
        ({"boot_epoch": 1}, ["epoch"]),
        ({"last_shutdown": {"clean": True}}, ["last stop"]),
        ({"limbo_ledgers": 1}, ["limbo"]),
        ({"unchecked_ledgers": 1}, ["limbo"]),
        ({"disks": [{"name": "d", "role": "ledger"}]}, ["disks"]),
        ({"node": "n"}, ["node"]),
        ({"restarts": 1}, ["restarts"]),
        ({"node": "n", "boot_epoch": 1}, ["epoch", "node"]),
    ],
)
def test_there_is_a_column_if_at_least_one_bookie_has_something_to_say(
    facts: dict[str, Any], more: list[str]
) -> None:
    made = table({}, facts)
    heads = re.findall(r'<th scope="col">(.*?)</th>', made)
    assert heads == [head for head in HEADS if head in ("bookie", "state", *more)]
    assert re.findall(r'<td data-of="(.*?)"', made) == heads * 2


@pytest.mark.parametrize(
    ("of", "facts", "said"),
    [
        ("bookie", {"id": "<b>"}, "&lt;b&gt;"),
        ("epoch", {"boot_epoch": 7}, "7"),
        ("last stop", {"last_shutdown": {"clean": True}}, "CleanStop"),
        (
            "last stop",
            {"last_shutdown": {"clean": False}},
            '<span class="unsure">UncleanShutdown</span>',
        ),
        ("limbo", {"limbo_ledgers": 2}, '<span class="unsure">2 in limbo, 0 unchecked</span>'),
        ("limbo", {"unchecked_ledgers": 3}, '<span class="unsure">0 in limbo, 3 unchecked</span>'),
        ("node", {"node": "n<"}, "n&lt;"),
        ("restarts", {"restarts": 4}, "4"),
    ],
)
def test_a_fact_stands_in_its_own_column(of: str, facts: dict[str, Any], said: str) -> None:
    assert cell(of, **facts) == said


@pytest.mark.parametrize(
    ("state", "kind"),
    [("Serving", "good"), ("Limbo", "unsure"), ("Refused", "bad"), ("Booting", "busy")],
)
def test_a_state_has_the_class_of_its_colour(state: str, kind: str) -> None:
    assert cell("state", state=state) == f'<div><span class="{kind}">{state}</span></div>'


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        ({}, []),
        ({"message": "why"}, ["why"]),
        ({"losses_recorded": 2}, ["losses recorded: 2"]),
        ({"repair": REPAIR}, ["repair running"]),
        ({"repair": REPAIR | {"started_at": NOW - MINUTE}}, ["repair running for 60s"]),
        ({"repair": REPAIR | {"state": "Waiting"}}, ["repair waiting"]),
        ({"repair": REPAIR | {"state": "Failed"}}, ["repair failed"]),
        ({"repair": REPAIR | {"state": "Finished"}}, []),
        (
            {"message": "why", "losses_recorded": 1, "repair": REPAIR},
            ["why", "losses recorded: 1", "repair running"],
        ),
    ],
)
def test_what_is_the_matter_stands_below_the_state(facts: dict[str, Any], lines: list[str]) -> None:
    parts = cell("state", **facts).split("<br>")
    assert [Parsed(part.removesuffix("</div>")).text for part in parts[1:]] == lines


@pytest.mark.parametrize(
    ("total", "cleared", "drawn"),
    [(0, 0, ""), (9, 0, 'max="9" value="0"'), (9, 4, 'max="9" value="4"')],
)
def test_a_repair_that_knows_its_ledgers_shows_how_far_it_is(
    total: int, cleared: int, drawn: str
) -> None:
    repair = REPAIR | {"ledgers_total": total, "ledgers_cleared": cleared}
    made = cell("state", id="b<", repair=repair)
    wanted = [f'<progress aria-label="repair of b&lt;" {drawn}></progress> '] if drawn else []
    assert re.findall(r"<progress.*?</progress> ", made) == wanted


@pytest.mark.parametrize(
    ("verdicts", "summary"),
    [
        (("ok", "new"), "2 ok"),
        (("ok", "stale", "torn"), '<span class="unsure">2 of 3 not ok</span>'),
        (("ok", ""), '<span class="dim">1 not looked at yet</span>'),
        (("stale", ""), '<span class="unsure">1 of 2 not ok</span>'),
    ],
)
def test_disks_are_summed_up_and_listed_below(verdicts: tuple[str, ...], summary: str) -> None:
    disks = [{"name": f"d{n}", "role": "ledger", "verdict": one} for n, one in enumerate(verdicts)]
    made = cell("disks", disks=disks)
    head, _, rest = made.partition("</summary>")
    assert head == f'<details id="demo-b0-disks"><summary id="demo-b0-disks-of">{summary}'
    assert re.findall(r"<li>(\w+)  ledger  ", rest) == [one["name"] for one in disks]
