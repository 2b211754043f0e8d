"""Limbo of a cluster, bookie by bookie; and the wait until the operator says that it is gone.

Unknown is never shown as none: a bookie that has not booted, a spec that the operator has not seen
yet, or an operator that has not looked for long may hide limbo.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import IntEnum

from bookie.rows import Cell, Rows
from rich.console import Group, RenderableType
from rich.text import Text

from bookie_operator.kubectl.client import CLUSTERS, Kubectl, KubectlError
from bookie_operator.kubectl.clusters import read
from bookie_operator.model.bookie_status import BookieStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.incidents import IncidentOutcome
from bookie_operator.model.status import ClusterStatus
from bookie_operator.status_tree.ages import count, span
from bookie_operator.status_tree.bookies import STATE_STYLES, repair_text
from bookie_operator.status_tree.last_look import no_look


class Limbo(IntEnum):
    """What is known, as exit codes tell it."""

    NONE = 0
    PRESENT = 3
    UNKNOWN = 4


def limbo_of(cluster: BookieCluster, *, now: datetime) -> Limbo:
    status = cluster.status
    if status.limbo.ledgers or status.limbo.unchecked:
        return Limbo.PRESENT
    limbo = status.condition(ConditionType.LIMBO_PRESENT)
    if limbo is None or limbo.observed_generation < cluster.metadata.generation:
        return Limbo.UNKNOWN
    if no_look(status, now):
        return Limbo.UNKNOWN
    return {"True": Limbo.PRESENT, "False": Limbo.NONE}.get(limbo.status, Limbo.UNKNOWN)


def limbo_view(cluster: BookieCluster, *, now: datetime) -> RenderableType:
    parts: list[RenderableType] = [_headline(cluster, now)]
    if cluster.status.bookies:
        parts.append(_table(cluster.status, now))
    return Group(*parts)


def _headline(cluster: BookieCluster, now: datetime) -> Text:
    limbo, status = limbo_of(cluster, now=now), cluster.status
    text = Text(f"BookieCluster {cluster.metadata.name}  ", "bold")
    if limbo is Limbo.NONE:
        return text.append("no limbo", "green")
    if limbo is Limbo.UNKNOWN:
        return text.append(f"not known: {_why_unknown(status, now)}", "yellow")
    text.append(
        f"{count(status.limbo.ledgers, 'ledger')} in limbo, {status.limbo.unchecked} unchecked"
    )
    if status.limbo.oldest_since is not None:
        text.append(f"; the oldest for {span(now - status.limbo.oldest_since)}")
    return text


def _why_unknown(status: ClusterStatus, now: datetime) -> str:
    limbo = status.condition(ConditionType.LIMBO_PRESENT)
    if limbo is None:
        return "no operator has reported on it"
    if limbo.status == "Unknown":
        return limbo.message or limbo.reason
    return no_look(status, now) or "the spec has changed since the operator looked"


def _table(status: ClusterStatus, now: datetime) -> Rows:
    rows: list[Sequence[Cell]] = []
    for bookie in status.bookies:
        since, epoch = _since(status, bookie)
        repair = bookie.repair if bookie.limbo_ledgers or bookie.unchecked_ledgers else None
        rows.append(
            (
                bookie.id,
                Text(bookie.state.value, STATE_STYLES.get(bookie.state, "cyan")),
                str(bookie.limbo_ledgers),
                str(bookie.unchecked_ledgers),
                span(now - since) if since is not None else "-",
                epoch,
                repair_text(repair, now) if repair is not None else "-",
            )
        )
    headings = ("BOOKIE", "STATE", "LIMBO", "UNCHECKED", "FOR", "SINCE EPOCH", "REPAIR")
    return Rows(headings, rows, numbers=("LIMBO", "UNCHECKED", "SINCE EPOCH"))


def _since(status: ClusterStatus, bookie: BookieStatus) -> tuple[datetime | None, str]:
    """When the bookie's oldest open incident was detected, and the boot that found it."""
    if not bookie.limbo_ledgers and not bookie.unchecked_ledgers:
        return None, "-"
    for incident in status.incidents:
        if incident.bookie == bookie.id and incident.outcome is IncidentOutcome.OPEN:
            return incident.detected_at, str(incident.boot_epoch_after)
    return None, str(bookie.boot_epoch or "-")


def wait(
    kubectl: Kubectl,
    name: str,
    *,
    seconds: float | None,
    tell: Callable[[BookieCluster], None],
    clock: Callable[[], datetime],
) -> BookieCluster:
    """The cluster once the operator says, of the spec as it is now, that nothing is in limbo;
    or as it is when the time is up."""
    end = None if seconds is None else time.monotonic() + seconds
    cluster = read(BookieCluster, kubectl.get(CLUSTERS, name))
    while limbo_of(cluster, now=clock()) is not Limbo.NONE:
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            break
        for change in kubectl.watch(CLUSTERS, name, seconds=left):
            if change.type == "DELETED":
                raise KubectlError(f"BookieCluster {name} was deleted while it was waited for")
            cluster = read(BookieCluster, change.found)
            if limbo_of(cluster, now=clock()) is Limbo.NONE:
                break
            tell(cluster)
    return cluster
