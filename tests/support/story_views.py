"""What people and programs are shown of a status: each view as plain text, and the metrics."""

import io
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from bookie_operator.kubectl.hints import hint_lines, hints
from bookie_operator.kubectl.limbo import limbo_view
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.page.document import content
from bookie_operator.status_tree.tree import cluster_tree
from prometheus_client import generate_latest
from rich.console import Console, RenderableType
from rich.text import Text

WIDTH: Final = 110


def all_views(cluster: BookieCluster, *, now: datetime) -> str:
    """One after the other, each below its name."""
    views = {
        "status": _plain([cluster_tree(cluster, now=now)]),
        "status, wide": _plain([cluster_tree(cluster, now=now, wide=True)]),
        "hints": _plain(hint_lines(hints(cluster, now=now), flags=["-n", "logs"])),
        "limbo": _plain([limbo_view(cluster, now=now)]),
        "page": content([cluster], now=now).replace("><", ">\n<"),
        "metrics": _metrics(cluster),
    }
    return "\n".join(f"# {name}\n{text.strip()}\n" for name, text in views.items())


def _plain(views: Iterable[RenderableType]) -> str:
    screen = Console(file=io.StringIO(), width=WIDTH)
    for view in views:
        if isinstance(view, Text):  # a line that is to be copied is not to be broken
            screen.print(view, soft_wrap=True)
        else:
            screen.print(view)
    assert isinstance(screen.file, io.StringIO)
    return "\n".join(line.rstrip() for line in screen.file.getvalue().splitlines())


def _metrics(cluster: BookieCluster) -> str:
    """Series alone, without the lines that explain them."""
    metrics = OperatorMetrics(clock=lambda: 0.0)
    metrics.show("logs", cluster.metadata.name, cluster.status)
    told = generate_latest(metrics.registry).decode()
    return "\n".join(line for line in told.splitlines() if not line.startswith("#"))
