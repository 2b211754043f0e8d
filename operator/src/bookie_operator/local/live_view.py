"""Shows status and events to people: a live view at a terminal, plain lines elsewhere."""

from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.undecided import selector
from bookie_operator.plan.actions import Event
from bookie_operator.status_tree.pending import undecided
from bookie_operator.status_tree.tree import cluster_tree

EVENTS_SHOWN: Final = 8


def cluster_view(cluster: BookieCluster, *, wide: bool = False) -> RenderableType:
    """The tree of the status, with ages as of now; see `cluster_tree`."""
    return cluster_tree(cluster, now=datetime.now(UTC), wide=wide)


def what_to_decide(status: ClusterStatus) -> str:
    """Commands with which a person decides about ledgers that wait; empty: none does."""
    selected = selector(undecided(status))
    if selected is None:
        return ""
    command = f"bookie ledger accept-loss {selected}"
    return (
        "what to do\n  If an old disk can come back, bring it back first. If none can, see what a "
        f"decision would mean, then accept the loss:\n    {command} --dry-run\n"
        f"    {command} --reason WHY"
    )


def _clock(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")


def event_line(event: Event, *, at: datetime) -> str:
    """`12:03:04 ! bookie-1 UncleanShutdown: ...`"""
    mark = "!" if event.type == "Warning" else " "
    whose = f"{event.bookie} " if event.bookie else ""
    return f"{_clock(at)} {mark} {whose}{event.reason}: {event.message}"


class PlainScreen:
    """Prints a line for every event, and for every condition whose status changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}
        """The last status shown of each condition, by type."""

    def show_event(self, event: Event, *, at: datetime | None = None) -> None:
        self._line(event_line(event, at=at or datetime.now(UTC)))

    def show_cluster(self, cluster: BookieCluster) -> None:
        for condition in cluster.status.conditions:
            if self._shown.get(condition.type) == condition.status:
                continue
            self._shown[condition.type] = condition.status
            text = f"{condition.type}={condition.status} {condition.reason} {condition.message}"
            self._line(f"{_clock(datetime.now(UTC))}   {text.rstrip()}")

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> "PlainScreen":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class LiveScreen:
    """Redraws the status tree in place, with the newest events below it."""

    def __init__(self, console: Console) -> None:
        self._events: list[str] = []
        """The newest ones, a bounded number."""
        self._cluster: BookieCluster | None = None
        """The cluster shown last; None before the first."""
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def show_event(self, event: Event, *, at: datetime | None = None) -> None:
        self._events.append(event_line(event, at=at or datetime.now(UTC)))
        del self._events[:-EVENTS_SHOWN]
        self._draw()

    def show_cluster(self, cluster: BookieCluster) -> None:
        self._cluster = cluster
        self._draw()

    def _draw(self) -> None:
        parts: list[RenderableType] = []
        if self._cluster is not None:
            parts.append(cluster_view(self._cluster))
        parts.append(Text("\n".join(self._events), "dim"))
        self._live.update(Group(*parts), refresh=True)

    def __enter__(self) -> "LiveScreen":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()
