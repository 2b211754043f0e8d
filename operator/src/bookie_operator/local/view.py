"""Statuses and events for people: a live view at a terminal, plain lines anywhere else."""

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Final

from bookie.rows import Rows
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import (
    BookieState,
    BookieStatus,
    ClusterStatus,
    ConditionType,
    Incident,
    IncidentOutcome,
)
from bookie_operator.plan.actions import Event

EVENTS_SHOWN: Final = 8
INCIDENTS_SHOWN: Final = 5
_GOOD_WHEN_TRUE: Final = frozenset(
    {ConditionType.AVAILABLE.value, ConditionType.DURABILITY_VERIFIED.value}
)
_STATE_STYLES: Final = {
    BookieState.SERVING: "green",
    BookieState.READ_ONLY: "yellow",
    BookieState.LIMBO: "yellow",
    BookieState.DOWN: "red",
    BookieState.REFUSED: "red",
    BookieState.CRASH_LOOP: "red",
    BookieState.UNRESPONSIVE: "red",
}


def cluster_view(cluster: BookieCluster) -> RenderableType:
    """The status: a headline, the bookies, what is blocked, left over, the incidents, the audit."""
    status = cluster.status
    parts: list[RenderableType] = [_headline(cluster), _bookies(status)]
    if status.blocked:
        parts.append(_blocked(status))
    if status.left_over:
        parts.append(_left_over(status))
    if status.incidents:
        parts.append(_incidents(status.incidents[-INCIDENTS_SHOWN:]))
    parts.append(_footer(status))
    return Group(*parts)


def _headline(cluster: BookieCluster) -> Text:
    status = cluster.status
    text = Text.assemble(
        (f"BookieCluster {cluster.metadata.name}", "bold"),
        f"  {status.phase}  {status.ready_replicas}/{cluster.spec.replicas} ready",
    )
    for condition in status.conditions:
        if condition.status == "False" and condition.type not in _GOOD_WHEN_TRUE:
            continue
        good = (condition.status == "True") == (condition.type in _GOOD_WHEN_TRUE)
        style = "green" if good else "yellow"
        sign = {"True": "", "False": "not ", "Unknown": "? "}[condition.status]
        text.append(f"\n  {sign}{condition.type}", style)
        text.append(f" {condition.reason}: {condition.message}" if condition.message else "")
    return text


def _bookies(status: ClusterStatus) -> Rows:
    headings = ("BOOKIE", "STATE", "EPOCH", "LAST STOP", "LIMBO", "UNCHECKED", "REPAIR", "DISKS")
    rows = [
        (
            bookie.id,
            Text(bookie.state.value, _STATE_STYLES.get(bookie.state, "cyan")),
            str(bookie.boot_epoch or "-"),
            _last_stop(bookie),
            str(bookie.limbo_ledgers),
            str(bookie.unchecked_ledgers),
            _repair(bookie),
            _disks(bookie),
        )
        for bookie in status.bookies
    ]
    return Rows(headings, rows, numbers=("EPOCH", "LIMBO", "UNCHECKED"))


def _last_stop(bookie: BookieStatus) -> str:
    stop = bookie.last_shutdown
    return "-" if stop is None else stop.reason or ("clean" if stop.clean else "unclean")


def _repair(bookie: BookieStatus) -> str:
    repair = bookie.repair
    return "-" if repair is None else f"{repair.state} (attempt {repair.attempt})"


def _disks(bookie: BookieStatus) -> str:
    """Only what is out of the ordinary is spelled out."""
    odd = [f"{d.name} {d.verdict or '?'}" for d in bookie.disks if d.verdict not in ("ok", "new")]
    return ", ".join(odd) or "ok"


def _blocked(status: ClusterStatus) -> Rows:
    rows = [
        (item.bookie, item.action, item.predicate, _clock(item.since), item.message)
        for item in status.blocked
    ]
    return Rows(("BOOKIE", "ACTION", "REFUSED BY", "SINCE", "WHY"), rows, title="Blocked")


def _left_over(status: ClusterStatus) -> Rows:
    rows = [(one.bookie, f"{one.what}\n{one.message}") for one in status.left_over]
    return Rows(("BOOKIE", "WHAT"), rows, title="Left over")


def _incidents(incidents: Iterable[Incident]) -> Rows:
    columns = ("DETECTED", "BOOKIE", "KIND", "EPOCHS", "FENCED", "LIMBO", "COPIED", "CLEARED IN")
    rows = []
    for incident in incidents:
        took = incident.seconds_to_clear
        done = f"{took:.1f} s" if took is not None else incident.outcome.value
        if incident.outcome is IncidentOutcome.SUPERSEDED:
            done = "superseded"
        rows.append(
            (
                _clock(incident.detected_at),
                incident.bookie,
                incident.kind,
                f"{incident.boot_epoch_before}→{incident.boot_epoch_after}",
                str(incident.ledgers_fenced),
                str(incident.ledgers_in_limbo),
                str(incident.entries_copied),
                done,
            )
        )
    return Rows(columns, rows, title="Incidents")


def _footer(status: ClusterStatus) -> Text:
    audit = status.audit
    text = Text(f"metadata {status.metadata.url or '-'}", "dim")
    if audit.finished_at is not None:
        found = "clean" if audit.clean else "with findings"
        text.append(
            f"   last audit {_clock(audit.finished_at)} {found}: {audit.ledgers} ledgers, "
            f"{audit.entries} entries"
        )
    for kind, one in (
        ("audit", audit),
        ("repair of findings", status.mend),
        ("scrub", status.scrub),
        ("re-replication", status.rereplication),
    ):
        if one.running:
            text.append(f"\n{kind} {one.attempt} runs")
            text.append(f": {one.progress}" if one.progress else "")
    return text


def _clock(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")


def event_line(event: Event, *, at: datetime) -> str:
    """`12:03:04 ! bookie-1 UncleanShutdown: ...`"""
    mark = "!" if event.type == "Warning" else " "
    whose = f"{event.bookie} " if event.bookie else ""
    return f"{_clock(at)} {mark} {whose}{event.reason}: {event.message}"


class PlainScreen:
    """A line for every event, and one for every condition that flips."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}

    def show_event(self, event: Event) -> None:
        self._line(event_line(event, at=datetime.now().astimezone()))

    def show_cluster(self, cluster: BookieCluster) -> None:
        for condition in cluster.status.conditions:
            if self._shown.get(condition.type) == condition.status:
                continue
            self._shown[condition.type] = condition.status
            told = f"{condition.type}={condition.status} {condition.reason} {condition.message}"
            self._line(f"{_clock(datetime.now().astimezone())}   {told.rstrip()}")

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
    """The status table, redrawn in place, above the newest events."""

    def __init__(self, console: Console) -> None:
        self._events: list[str] = []
        self._cluster: BookieCluster | None = None
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def show_event(self, event: Event) -> None:
        self._events.append(event_line(event, at=datetime.now().astimezone()))
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
