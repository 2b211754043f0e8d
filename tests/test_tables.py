"""Every table of every command fits a terminal of 100 columns, and no word in it is cut.

A table is compared with itself on a screen of any width: what it says there it says here.
"""

import io
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from bookie.cli.output import fields_text, table_text
from bookie.ids import BookieId
from bookie_operator.kubectl.events import event_table
from bookie_operator.kubectl.limbo import limbo_view
from bookie_operator.kubectl.tasks import task_table
from bookie_operator.local.live_view import cluster_view
from bookie_operator.model.bookie_status import (
    BookieState,
    BookieStatus,
    DiskStatus,
    LastShutdown,
    RepairStatus,
)
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.model.status import Blocked, ClusterStatus
from bookie_operator.observed import LeftOver
from bookie_operator.plan.planner import plan
from bookie_operator.status_tree.tree import cluster_tree
from operator_scenes import at, cluster, manifest, observed
from rich.console import Console, RenderableType

COLUMNS: Final = 100
ANY: Final = 10_000
NAME: Final = "books-of-the-eastern-branches-and-office"
"""As long as a cluster's name may be."""
UID: Final = "cf3ac9f8-7276-4c4a-b27a-46513ea125af"
NODE: Final = "ip-10-0-112-134.eu-central-1.compute.internal"
HOST: Final = "bookie-10.bookies.books.svc.cluster.local:3181"
JOB: Final = f"{NAME}-bookie-10-1234-12"
WHY: Final = (
    "attempt 12: ledger 1234567890 entry 123456789 cannot be decided: bookie-10 (does not answer), "
    f"{HOST} (limbo); job {JOB} goes on once they answer"
)
FOLDER: Final = "/home/ann/fleets/books/.bookies/volumes/bookie-10/ledger-0"
_STYLES: Final = re.compile(r"\x1b\[[0-9;]*m")


def troubled(number: int) -> BookieStatus:
    state = [*BookieState][number % len(BookieState)]
    repair = RepairStatus(
        episode=f"bookie-{number}/1234",
        state="Failed",
        attempt=12,
        next_attempt_at=at(90),
        progress="123456/1234567 ledgers (10 %)",
        message=WHY,
        engine="spark-kubernetes",
        engine_reason="auto: 2.1 GiB to read",
        executors=2,
        spark_app_id="spark-8c1f0b3f5f0d4c1a9b1d2f7f0a6c1e55",
    )
    verdicts = ("ok", "empty", "stale")
    return BookieStatus(
        id=f"bookie-{number}",
        state=state,
        message=WHY,
        boot_epoch=1234,
        last_shutdown=LastShutdown(clean=False, reason="MarkingInterrupted"),
        limbo_ledgers=1234567,
        unchecked_ledgers=1234567,
        restarts=123,
        repair=repair,
        node=f"{number}.{NODE}",
        instance=f"{UID}.123",
        control="10.112.134.156:3183",
        mode="journal",
        disks=tuple(
            DiskStatus(
                name=f"ledger-{place}",
                role="ledger",
                volume_uid=UID,
                disk_id=UID,
                verdict=verdict,
                total_bytes=10**12,
            )
            for place, verdict in enumerate(verdicts)
        ),
    )


def incident(number: int) -> Incident:
    return Incident(
        kind="MarkingInterrupted",
        bookie=f"bookie-{number}",
        boot_epoch_before=1234,
        boot_epoch_after=1235,
        cause="NodeRestarted",
        cause_message=f"node {NODE} was restarted",
        outcome=IncidentOutcome.OPEN if number % 2 else IncidentOutcome.CLEARED,
        seconds_to_clear=123456.7,
        ledgers_fenced=1234567,
        ledgers_in_limbo=1234567,
        ledgers_unchecked=1234567,
        entries_copied=12345678901,
        detected_at=at(number),
    )


def blocked(action: str, predicate: str) -> Blocked:
    return Blocked(bookie="bookie-10", action=action, predicate=predicate, since=at(0), message=WHY)


def large() -> BookieCluster:
    """A cluster of eleven with everything that a status can say, and long words for it."""
    tree = manifest(replicas=11)
    tree["metadata"]["name"] = NAME
    disks = ("journal", "ledger-0", "ledger-1")
    claims = tuple(f"{NAME}-bookie-11-{disk}" for disk in disks)
    seen = replace(observed(), left_over={BookieId("bookie-11"): LeftOver(claims, True)})
    left_over = plan(cluster(), seen, ClusterStatus()).status.left_over
    drain = DrainStatus(
        bookie="bookie-10", phase=DrainPhase.HELD, started_at=at(0), attempt=3, message=WHY
    )
    status = plan(cluster(replicas=11), seen, ClusterStatus()).status.model_copy(
        update={
            "bookies": tuple(map(troubled, range(len(BookieState)))),
            "incidents": tuple(map(incident, range(8, 11))),
            "blocked": (
                blocked("ScaleDown", "WouldBreakEnsemble"),
                blocked("ReplaceDisk", "MultipleBookiesChanged"),
            ),
            "left_over": left_over,
            "drain": drain,
        }
    )
    return BookieCluster.model_validate(tree).model_copy(update={"status": status})


def asked(kind: str, **about: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{kind}-bookie-10-x7k2p"[:40],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"cluster": NAME, "type": kind} | about,
        "status": {"phase": "Running", "target": JOB, "startedAt": "2026-01-01T00:00:01Z"},
    }


def tasks() -> RenderableType:
    fix = asked("approve-cookie-fix", bookie="bookie-10", planId="244f35d54025")
    gone = asked("rereplicate", bookie=HOST)
    gone["status"] |= {"phase": "Failed", "message": WHY, "finishedAt": "2026-01-01T05:10:00Z"}
    loss = asked("accept-loss", ledger=1234567890, reason="two disks burnt", approvedBy="ann")
    return task_table([fix, gone, loss], now=at(20000))


def events() -> RenderableType:
    told = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "type": "Warning",
        "reason": "MetadataInitialised",
        "message": WHY,
        "count": 123,
    }
    return event_table([told], now=at(20000))


SCREENS: Final[Mapping[str, Callable[[], RenderableType]]] = {
    "kubectl bookie status": lambda: cluster_tree(large(), now=at(60)),
    "kubectl bookie status -o wide": lambda: cluster_tree(large(), now=at(60), wide=True),
    "kubectl bookie limbo": lambda: limbo_view(large(), now=at(60)),
    "kubectl bookie tasks": tasks,
    "kubectl bookie events": events,
    "bookie-operator local status": lambda: cluster_view(large()),
}
ROWS: Final[Mapping[str, dict[str, Any]]] = {
    "bookie ledger list": {
        "ledger_id": 1234567890,
        "state": "IN_RECOVERY",
        "last_entry_id": 12345678901,
        "length": 123456789012345,
        "fragments": [f"12345678901: bookie-10 bookie-11 {HOST}", f"12345678902: {HOST} bookie-9"],
    },
    "bookie cookie show": {
        "bookie": HOST,
        "journal": [FOLDER.replace("ledger-0", "journal")],
        "ledgers": [FOLDER, FOLDER.replace("-0", "-1")],
        "instance_id": UID,
    },
    "bookie inspect": {
        "directory": FOLDER,
        "disk": UID,
        "bookie": "bookie-10",
        "boot_epoch": 1234,
        "last_stop": "MarkingInterrupted",
        "ledgers": 1234567,
        "limbo": 1234567,
        "log": "123 files, 123456789012 bytes",
    },
    "bookie index rebuild": {
        "directory": FOLDER,
        "runs": 123456789,
        "ledgers": 1234567,
        "torn": 12,
        "damage": f"{FOLDER}/log/0000000123.log at 1234567890: checksum",
    },
    "bookie limbo": {
        "bookie": HOST,
        "ledger_id": 1234567890,
        "mark": "unchecked",
        "boot_epoch": 1234,
    },
    "bookie audit: findings": {
        "ledger_id": 1234567890,
        "state": "IN_RECOVERY",
        "problem": "below ack quorum",
        "entries": "1234567890-1234567899 1234567901-1234567999 …",
        "bookies": f"bookie-10 {HOST} bookie-11",
    },
    "bookie repair: blocked": {
        "ledger_id": 1234567890,
        "bookie_id": HOST,
        "reason": "NotEnoughBookies",
        "message": WHY,
    },
    "bookie audit: misplaced": {"class": "misplaced", "ledger_id": 1234567890, "message": WHY},
    "bookie audit: no answer": {"bookie_id": HOST, "registered": "yes"},
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(view: RenderableType, columns: int) -> str:
    screen = Console(file=io.StringIO(), width=columns, highlight=False)
    screen.print(view)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def printed(monkeypatch: pytest.MonkeyPatch, columns: int, show: Callable[[], str]) -> str:
    """As at a terminal that wide."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    return _STYLES.sub("", show())


def fits(narrow: str, wide: str) -> None:
    assert max(map(len, narrow.rstrip("\n").splitlines())) <= COLUMNS, narrow
    assert set(wide.split()) <= set(narrow.split()), narrow


@pytest.mark.parametrize("name", SCREENS)
def test_d9_what_an_operator_shows_fits_with_no_word_cut(name: str) -> None:
    fits(*(drawn(SCREENS[name](), columns) for columns in (COLUMNS, ANY)))


@pytest.mark.parametrize("name", ROWS)
def test_d9_what_a_bookie_shows_fits_with_no_word_cut(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    row = ROWS[name]
    for show in (lambda: table_text([row, row], columns=tuple(row)), lambda: fields_text(row)):
        fits(*(printed(monkeypatch, columns, show) for columns in (COLUMNS, ANY)))
