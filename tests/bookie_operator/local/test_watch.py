"""`local watch`: what the operator's files say, as they change."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie_operator.errors import LocalError
from bookie_operator.local.live_view import EVENTS_SHOWN, LiveScreen, PlainScreen
from bookie_operator.local.stored import STALE_AFTER_S, mark_looked
from bookie_operator.local.watch import watch
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import Event
from bookie_operator.platform.folders import LocalFolders, operator_lock, write_json
from operator_scenes import at, cluster
from rich.console import Console

BEGAN = datetime(2026, 11, 27, 9, tzinfo=UTC)


class Seen:
    """A screen that keeps what it is shown, and the pauses between two looks."""

    def __init__(self, *between: Callable[[], Any]) -> None:
        self.events: list[tuple[str, datetime | None]] = []
        self.clusters: list[BookieCluster] = []
        self._between = list(between)

    def show_event(self, event: Event, *, at: datetime | None = None) -> None:
        self.events.append((event.reason, at))

    def show_cluster(self, cluster: BookieCluster) -> None:
        self.clusters.append(cluster)

    def pause(self, _seconds: float) -> None:
        if not self._between:
            raise KeyboardInterrupt
        self._between.pop(0)()


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    folders = LocalFolders(tmp_path)
    folders.make()
    write_json(folders.status_file, cluster().as_dict())
    return folders


def happened(folders: LocalFolders, *numbers: int) -> None:
    for number in numbers:
        at = (BEGAN + timedelta(seconds=number)).isoformat()
        row = {"at": at, "type": "Normal", "reason": f"R{number}", "bookie": "", "message": ""}
        folders.append_event(row)


def watched(folders: LocalFolders, *between: Callable[[], Any]) -> Seen:
    seen = Seen(*between)
    with pytest.raises(KeyboardInterrupt):
        watch(folders, seen, pause=seen.pause)
    return seen


def test_an_event_is_shown_once_and_with_its_own_time(folders: LocalFolders) -> None:
    happened(folders, 1)
    with operator_lock(folders):
        seen = watched(folders, lambda: happened(folders, 2), lambda: None)
    times = [(f"R{number}", BEGAN + timedelta(seconds=number)) for number in (1, 2)]
    assert seen.events == times


def test_of_what_was_before_only_the_newest_events_are_shown(folders: LocalFolders) -> None:
    happened(folders, *range(20))
    with operator_lock(folders):
        seen = watched(folders, lambda: happened(folders, 20))
    assert [reason for reason, _at in seen.events] == [
        f"R{number}" for number in range(20 - EVENTS_SHOWN, 21)
    ]


def test_a_new_status_is_shown(folders: LocalFolders) -> None:
    changed = cluster(replicas=5)
    seen = watched(folders, lambda: write_json(folders.status_file, changed.as_dict()))
    assert [one.spec.replicas for one in seen.clusters] == [4, 5]


def test_whoever_watches_hears_once_that_no_operator_runs(folders: LocalFolders) -> None:
    lock = operator_lock(folders)
    lock.__enter__()
    seen = watched(folders, lambda: lock.__exit__(None, None, None), lambda: None)
    assert seen.events == [("NoOperator", None)]


def test_whoever_watches_hears_once_that_the_operator_is_stuck(folders: LocalFolders) -> None:
    with operator_lock(folders):
        long_ago = time.time() - 2 * STALE_AFTER_S
        seen = watched(folders, lambda: mark_looked(folders, began_s=long_ago), lambda: None)
    assert seen.events == [("NoOperator", None)]


def test_events_go_on_when_their_oldest_file_was_dropped(folders: LocalFolders) -> None:
    happened(folders, *range(12))

    def dropped() -> None:
        folders.events_file.unlink()
        happened(folders, 12)

    with operator_lock(folders):
        seen = watched(folders, dropped)
    assert seen.events[-1][0] == "R12"


def test_a_directory_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no cluster was ever started"):
        watch(LocalFolders(tmp_path / "d"), Seen())


def with_conditions(**words: str) -> BookieCluster:
    """A cluster of which these conditions are said, by type."""
    why = {"reason": "Why", "message": "m", "lastTransitionTime": at(0)}
    said = [Condition.model_validate(why | {"type": t, "status": w}) for t, w in words.items()]
    return cluster().model_copy(update={"status": ClusterStatus(conditions=tuple(said))})


@pytest.fixture
def terminal() -> Console:
    """Narrow, and one that shows colours."""
    return Console(file=StringIO(), width=60, force_terminal=True, color_system="standard")


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Event("Started", "all of it"), "   Started: all of it"),
        (Event("Scaled", "to 4", bookie=BookieId("b-1")), "   b-1 Scaled: to 4"),
        (Event("Lost", "7 [red]of[/red] 9", type="Warning"), " ! Lost: 7 [red]of[/red] 9"),
        (Event("Long", "word " * 30, type="Warning"), f" ! Long: {'word ' * 30}"),
    ],
)
def test_without_a_live_view_an_event_is_one_line_of_its_own_words(
    terminal: Console, event: Event, line: str
) -> None:
    with PlainScreen(terminal) as screen:
        screen.show_event(event, at=BEGAN)
        screen.show_event(event)
    first, second = written(terminal).splitlines()
    assert first == f"{BEGAN.astimezone():%H:%M:%S}{line}"
    assert second[len("00:00:00") :] == line


def test_without_a_live_view_a_condition_is_said_once_it_has_changed(terminal: Console) -> None:
    screen = PlainScreen(terminal)
    for words in ({"Ready": "False"}, {"Ready": "False"}, {"Ready": "True", "Available": "True"}):
        screen.show_cluster(with_conditions(**words))
    said = [line[len("00:00:00") :] for line in written(terminal).splitlines()]
    assert said == ["   Ready=False Why m", "   Ready=True Why m", "   Available=True Why m"]


def test_a_live_view_is_drawn_at_once_and_keeps_the_newest_events_below_the_cluster(
    terminal: Console,
) -> None:
    with LiveScreen(terminal) as screen:
        screen.show_event(Event("R0", "first"), at=BEGAN)
        assert "R0: first" in written(terminal)
        screen.show_cluster(cluster())
        assert "BookieCluster demo" in written(terminal)
        for number in range(1, EVENTS_SHOWN + 1):
            screen.show_event(Event(f"R{number}", "next"))
        frame = written(terminal).rpartition("BookieCluster demo")[2]
    assert [f"R{n}:" in frame for n in range(EVENTS_SHOWN + 1)] == [False] + [True] * EVENTS_SHOWN
