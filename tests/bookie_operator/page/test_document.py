"""The page of a fleet: it says what the tree says, and what a cluster says is only text."""

import base64
import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bookie_operator.model.bookie_status import DiskStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.model.left_over import LeftOverStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.undecided import UNDECIDED_MAX
from bookie_operator.page.document import POLICY, content, document
from bookie_operator.page.markup import line_of
from bookie_operator.page.shown import Unreadable
from bookie_operator.page.timeline import BAR_LEAST, NAMES, WIDTH, timeline
from bookie_operator.status_tree.tree import (
    blocked_lines,
    condition_lines,
    facts,
    headline,
    incident_line,
    undecided_lines,
    work,
)
from kubectl_lab import cluster_of
from parsed_page import Parsed
from rich.text import Span, Text

NASTY = "<script>alert('x')</script>&"
STATES = ["healthy", "limbo", "approval", "blocked"]
NOW = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)


def nasty(value: Any, key: str = "") -> Any:
    """The tree with such an end on every text that people are shown."""
    if isinstance(value, dict):
        return {name: nasty(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [nasty(one, key) for one in value]
    shown = {"message", "reason", "cause", "causeMessage", "node", "kind", "progress", "phase"}
    return f"{value}{NASTY}" if isinstance(value, str) and key in shown else value


def spoilt(name: str) -> BookieCluster:
    tree = cluster_of(name).as_dict()
    return BookieCluster.model_validate(tree | {"status": nasty(tree["status"])})


@pytest.mark.parametrize("name", STATES)
def test_the_page_says_what_the_tree_says(name: str) -> None:
    cluster = cluster_of(name)
    status, text = cluster.status, Parsed(document([cluster], now=NOW)).text
    lines = [headline(cluster), *condition_lines(status, NOW), *facts(cluster)]
    lines += [*work(status, NOW), *blocked_lines(status, NOW)]
    lines += undecided_lines(status, wide=True)
    lines += [incident_line(one, NOW) for one in status.incidents]
    assert [line.plain for line in lines if line.plain not in text] == []


def test_the_page_says_that_no_operator_looks() -> None:
    cluster = cluster_of("healthy")
    status = cluster.status.model_copy(update={"looked_at": NOW - timedelta(hours=3)})
    text = Parsed(document([cluster.model_copy(update={"status": status})], now=NOW)).text
    assert "the operator has not looked at the cluster for 3h" in text


def test_d9_the_page_says_all_that_is_left_over_of_whom_and_why() -> None:
    kept = tuple(
        LeftOverStatus(bookie=f"bookie-{n}", claims=(f"claim-{n}",), message=f"Why {n}{NASTY}")
        for n in range(4, 34)
    )
    bare = cluster_of("healthy")
    status = bare.status.model_copy(update={"left_over": kept})
    full = bare.model_copy(update={"status": status})
    text = Parsed(content([full], now=NOW)).text
    assert all(f"{one.bookie}  {one.what}  {one.message}" in text for one in kept)
    assert "Left over" in text and "Left over" not in content([bare], now=NOW)


def test_every_cluster_has_its_own_place_on_the_page() -> None:
    names = [("a", "b-c"), ("a-b", "c"), ("", "a-b-c")]
    text = content([Unreadable(*name, "no spec") for name in names], now=NOW)
    places = re.findall(r'<article id="([^"]*)"', text)
    assert len({*places}) == len(names) and places == re.findall(r'href="#([^"]*)"', text)


def test_a_bookie_that_lost_entries_says_so_in_its_row() -> None:
    cluster = cluster_of("healthy")
    first, *others = cluster.status.bookies
    bookies = (first.model_copy(update={"losses_recorded": 3}), *others)
    status = cluster.status.model_copy(update={"bookies": bookies})
    rows = content([cluster.model_copy(update={"status": status})], now=NOW).split("<tr>")
    assert [f">{first.id}<" in row for row in rows if "losses recorded: 3" in row] == [True]


@pytest.mark.parametrize("name", STATES)
def test_every_bookie_has_a_row_with_its_state_and_its_disks(name: str) -> None:
    status, text = cluster_of(name).status, content([cluster_of(name)], now=NOW)
    for bookie in status.bookies:
        row = next(row for row in text.split("<tr>") if f">{bookie.id}<" in row)
        assert bookie.state.value in row
        assert all(disk.volume_uid in row for disk in bookie.disks)


@pytest.mark.parametrize("name", STATES)
def test_the_page_is_well_formed_and_loads_nothing(name: str) -> None:
    parsed = Parsed(document([cluster_of(name), spoilt(name)], now=NOW))
    assert parsed.open == [] and not {"img", "link", "iframe"} & set(parsed.names)
    assert parsed.names.count("script") == 1
    names = {name for name, _value in parsed.attributes}
    assert "src" not in names and not any(name.startswith("on") for name in names)
    assert all(str(value).startswith("#") for name, value in parsed.attributes if name == "href")


@pytest.mark.parametrize("name", STATES)
def test_what_a_cluster_says_is_text(name: str) -> None:
    parsed = Parsed(content([spoilt(name)], now=NOW))
    assert "script" not in parsed.names and NASTY in parsed.text


def test_only_its_own_script_and_style_may_run() -> None:
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; "
        r"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        POLICY,
    )
    assert " style=" not in document([cluster_of("limbo")], now=NOW)


def test_without_a_cluster_it_says_so() -> None:
    assert "no BookieCluster yet" in Parsed(document([], now=NOW)).text


def test_of_several_clusters_each_is_linked() -> None:
    first = cluster_of("healthy")
    other = first.metadata.model_copy(update={"namespace": "other"})
    text = content([first, first.model_copy(update={"metadata": other})], now=NOW)
    links = re.findall(r'href="#([^"]+)"', text)
    assert len(set(links)) == 2 and re.findall(r'<article id="([^"]+)"', text) == links


def test_ids_of_elements_are_unique() -> None:
    first = cluster_of("approval")
    other = first.metadata.model_copy(update={"namespace": "other"})
    text = document([first, first.model_copy(update={"metadata": other})], now=NOW)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 10


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (Text("a<b"), "a&lt;b"),
        (Text("x", "dim"), '<span class="dim">x</span>'),
        (Text.assemble("a", ("b", "bold red"), "c"), 'a<span class="b bad">b</span>c'),
        (Text.assemble("a", ("b", "magenta")), "ab"),
        (Text("ab<", "bold green"), '<span class="b good">ab&lt;</span>'),
        (
            Text.assemble(Text.assemble("a", ("b", "cyan"), style="dim"), "c"),
            '<span class="dim">a</span><span class="dim busy">b</span>c',
        ),
        (
            Text("abc", spans=[Span(0, 2, "red"), Span(1, 9, "yellow")]),
            '<span class="bad">a</span><span class="bad unsure">b</span>'
            '<span class="unsure">c</span>',
        ),
        (Text(""), ""),
    ],
)
def test_a_line_keeps_its_styles_as_classes(text: Text, made: str) -> None:
    assert line_of(text) == made


def incident(begin: float, end: float | None, bookie: str = "bookie-1", **more: Any) -> Incident:
    """Detected and cleared so many minutes ago."""
    times = [NOW - timedelta(minutes=one) if one is not None else None for one in (begin, end)]
    outcome = IncidentOutcome.OPEN if end is None else IncidentOutcome.CLEARED
    fields = {"kind": "UncleanShutdown", "bookie": bookie, "outcome": outcome} | more
    return Incident.model_validate(fields | {"detected_at": times[0], "cleared_at": times[1]})


def bars(*incidents: Incident) -> list[tuple[str, float, float, float]]:
    """Class, left, top and width of each."""
    found = re.findall(
        r'<rect class="(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', timeline(incidents, now=NOW)
    )
    return [(kind, float(left), float(top), float(wide)) for kind, left, top, wide in found]


def test_an_open_incident_lasts_until_now() -> None:
    [(kind, left, _top, width)] = bars(incident(60, None))
    assert kind == "open" and left + width == pytest.approx(WIDTH, abs=0.2)


def test_a_bar_is_as_long_as_the_incident_took() -> None:
    first, second = bars(incident(60, 40), incident(20, 10))
    assert first[3] == pytest.approx(2 * second[3], rel=0.01)
    assert NAMES <= first[1] < second[1]


def test_what_took_a_moment_is_still_seen_and_stays_inside() -> None:
    for kind, left, _top, width in bars(incident(600, 599.99), incident(0, 0)):
        assert (kind, width) == ("cleared", BAR_LEAST)
        assert NAMES <= left <= WIDTH - BAR_LEAST


def test_each_bookie_has_a_row_in_the_order_of_numbers() -> None:
    text = timeline([incident(9, 8, "bookie-10"), incident(7, 6, "bookie-9")], now=NOW)
    assert re.findall(r">(bookie-\d+)</text>", text) == ["bookie-9", "bookie-10"]
    assert len({top for _kind, _left, top, _width in bars(incident(9, 8), incident(5, 4))}) == 1


def test_a_superseded_incident_is_called_so() -> None:
    text = timeline([incident(9, 8, outcome=IncidentOutcome.SUPERSEDED)], now=NOW)
    assert 'class="superseded"' in text and "superseded</title>" in text


def test_without_incidents_there_is_no_figure() -> None:
    assert timeline([], now=NOW) == ""


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("ok", "new"), "2 ok"),
        (("ok", "stale"), "1 of 2 not ok"),
        (("", ""), "2 not looked at yet"),
        (("ok", ""), "1 not looked at yet"),
        (("", "empty"), "1 of 2 not ok"),
    ],
)
def test_disks_are_ok_only_once_a_boot_has_said_so(verdicts: tuple[str, ...], said: str) -> None:
    cluster = cluster_of("healthy")
    disks = tuple(
        DiskStatus(name=f"ledger-{place}", role="ledger", verdict=verdict)
        for place, verdict in enumerate(verdicts)
    )
    bookie = cluster.status.bookies[0].model_copy(update={"disks": disks})
    status = cluster.status.model_copy(update={"bookies": (bookie,)})
    text = content([cluster.model_copy(update={"status": status})], now=NOW)
    [summary] = re.findall(r"<summary[^>]*>(.*?)</summary>", text)
    assert Parsed(summary).text == said


SECTIONS = ["Conditions", "Bookies", "Audits and repairs", "Promises"]
UNDECIDED = {"ledgers": 1, "through": 5, "first": [{"ledger": 5, "entry": 1}]}
REPAIR = {"episode": "b-2", "state": "Failed", "undecided": UNDECIDED}
REFUSED = {"action": "Restart", "predicate": "P", "since": NOW}


@pytest.mark.parametrize(
    ("facts", "more"),
    [
        ({}, []),
        ({"bookies": [{"id": "b", "state": "Limbo", "repair": REPAIR}]}, ["Undecided"]),
        ({"blocked": [REFUSED]}, ["Blocked"]),
        ({"incidents": [incident(9, 8)]}, ["Incidents"]),
    ],
)
def test_a_section_is_there_if_it_has_something_to_say(
    facts: dict[str, Any], more: list[str]
) -> None:
    status = ClusterStatus.model_validate(facts)
    text = content([cluster_of("healthy").model_copy(update={"status": status})], now=NOW)
    heads = re.findall(r"<section><h2>(.*?)</h2>", text)
    assert heads == [*SECTIONS[:2], *more, *SECTIONS[2:]]
    assert ("none reported yet" in text) is ("bookies" not in facts)


def test_the_newest_incident_is_the_first_in_the_list() -> None:
    status = ClusterStatus(incidents=(incident(9, 8, "b-1"), incident(7, 6, "b-2")))
    text = content([cluster_of("healthy").model_copy(update={"status": status})], now=NOW)
    listed = text.rpartition("</figure>")[2]
    assert 0 < listed.index("b-2") < listed.index("b-1") and "<svg" in text


@pytest.mark.parametrize(
    ("names", "title", "links", "where"),
    [
        ([], "no cluster", [], []),
        ([("", "a")], "a", [], []),
        ([("n", "a")], "a", [], ["n"]),
        ([("n", "a"), ("", "b<")], "a, b&lt;", ["n/a", "b&lt;"], ["n"]),
        ([("n", "a"), ("m<", "a")], "a, a", ["n/a", "m&lt;/a"], ["n", "m&lt;"]),
    ],
)
def test_clusters_are_named_and_linked_where_there_are_several(
    names: list[tuple[str, str]], title: str, links: list[str], where: list[str]
) -> None:
    made = document([Unreadable(*one, "no <spec>") for one in names], now=NOW)
    assert f"<title>{title}: bookies</title>" in made
    assert re.findall(r'<a id="to-(.*?)" href="#(.*?)">', made) == [(one, one) for one in links]
    assert re.findall(r'<p class="dim">namespace (.*?)</p>', made) == where
    assert made.count("<p>no &lt;spec&gt;</p>") == len(names)


def test_a_cluster_is_named_with_its_namespace_in_its_link_and_above_it() -> None:
    made = content([Unreadable("n<", "a<", "why"), Unreadable("", "b", "why")], now=NOW)
    said = Parsed(made).text.splitlines()
    both = ("BookieCluster a< not readable n<", "BookieCluster b not readable ")
    assert said[0] == "".join(both)
    assert said[1:] == [
        "BookieCluster a< not readablenamespace n<why",
        "BookieCluster b not readablewhy",
    ]


def test_every_ledger_that_waits_for_a_person_is_on_the_page() -> None:
    rows = [{"ledger": number, "entry": 1} for number in range(UNDECIDED_MAX)]
    found = {"ledgers": len(rows), "through": len(rows), "first": rows}
    bookie = {"id": "b", "state": "Limbo", "repair": REPAIR | {"undecided": found}}
    status = ClusterStatus.model_validate({"bookies": [bookie]})
    text = content([cluster_of("healthy").model_copy(update={"status": status})], now=NOW)
    ledgers = re.findall(r"<li>ledger (\d+) from entry 1 on", text)
    assert ledgers == [str(row["ledger"]) for row in rows]


def test_the_script_and_the_style_are_those_that_the_policy_allows() -> None:
    made = document([], now=NOW)
    for name in ("script", "style"):
        [inner] = re.findall(rf"<{name}>(.*?)</{name}>", made, re.S)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in POLICY
