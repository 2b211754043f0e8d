"""One bookie as a branch of the status tree: its state, then whatever is out of the ordinary."""

from datetime import datetime
from typing import Final

from rich.text import Text
from rich.tree import Tree

from bookie_operator.model.attempt_status import EngineUse
from bookie_operator.model.bookie_status import (
    BookieState,
    BookieStatus,
    DiskStatus,
    RepairState,
    RepairStatus,
)
from bookie_operator.model.status import ClusterStatus
from bookie_operator.status_tree.ages import count, span
from bookie_operator.status_tree.pending import GOOD_VERDICTS

STATE_STYLES: Final = {
    BookieState.SERVING: "green",
    BookieState.READ_ONLY: "yellow",
    BookieState.LIMBO: "yellow",
    BookieState.AWAITING_APPROVAL: "yellow",
    BookieState.DOWN: "red",
    BookieState.REFUSED: "red",
    BookieState.CRASH_LOOP: "red",
    BookieState.UNRESPONSIVE: "red",
}
BOOTED: Final = (
    BookieState.SERVING,
    BookieState.LIMBO,
    BookieState.READ_ONLY,
    BookieState.DRAINING,
    BookieState.LEAVING,
)
_REPAIR_STYLES: Final = {
    RepairState.WAITING: "yellow",
    RepairState.RUNNING: "cyan",
    RepairState.FINISHED: "green",
    RepairState.FAILED: "red",
}
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def bookie_branch(
    parent: Tree, bookie: BookieStatus, *, status: ClusterStatus, now: datetime, wide: bool
) -> None:
    branch = parent.add(_line(bookie, status))
    # Limbo counts have their own line: the state's message says no more than that.
    if bookie.state is not BookieState.LIMBO and _says_more(bookie):
        branch.add(Text(bookie.message))
    if bookie.limbo_ledgers or bookie.unchecked_ledgers:
        branch.add(
            Text.assemble(
                ("limbo   ", "dim"),
                (str(bookie.limbo_ledgers), "yellow"),
                " ledger, " if bookie.limbo_ledgers == 1 else " ledgers, ",
                (str(bookie.unchecked_ledgers), "yellow"),
                " unchecked",
            )
        )
    if bookie.losses_recorded:
        branch.add(Text(f"{count(bookie.losses_recorded, 'record')} of lost entries", "bold red"))
    if bookie.repair is not None and (bookie.repair.state is not RepairState.FINISHED or wide):
        branch.add(Text.assemble(("repair  ", "dim"), repair_text(bookie.repair, now)))
    if wide:
        branch.add(Text.assemble(("process ", "dim"), _process(bookie)))
    for disk in _disks_to_show(bookie, wide=wide):
        branch.add(Text.assemble(("disk    ", "dim"), disk_text(disk, wide=wide)))


def _disks_to_show(bookie: BookieStatus, *, wide: bool) -> tuple[DiskStatus, ...]:
    """A bookie that has booted has settled what was wrong with its disks: one word is enough."""
    if wide:
        return bookie.disks
    return () if bookie.state in BOOTED else tuple(odd_disks(bookie))


def odd_disks(bookie: BookieStatus) -> list[DiskStatus]:
    return [disk for disk in bookie.disks if disk.verdict not in (*GOOD_VERDICTS, "")]


def _says_more(bookie: BookieStatus) -> bool:
    return bookie.message.replace(" ", "").lower() not in ("", bookie.state.value.lower())


def _line(bookie: BookieStatus, status: ClusterStatus) -> Text:
    names = max(len(other.id) for other in status.bookies)
    states = max(len(other.state.value) for other in status.bookies)
    epochs = max(len(str(other.boot_epoch or "-")) for other in status.bookies)
    text = Text.assemble(
        f"{bookie.id:<{names}}  ",
        (f"{bookie.state.value:<{states}}", STATE_STYLES.get(bookie.state, "cyan")),
        f"  epoch {bookie.boot_epoch or '-':<{epochs}}",
    )
    stop = bookie.last_shutdown
    stops = max(len(last_stop(other)) for other in status.bookies)
    if stops:
        style = "" if stop is None or stop.clean else "yellow"
        text.append("  ")
        text.append(f"{last_stop(bookie):<{stops}}", style)
    if bookie.disks and all(disk.verdict in GOOD_VERDICTS for disk in bookie.disks):
        text.append(f"  {count(len(bookie.disks), 'disk')} ok", "dim")
    elif bookie.state in BOOTED:
        text.append("".join(f"  {d.name} was {d.verdict}" for d in odd_disks(bookie)), "dim")
    if bookie.node and len({other.node for other in status.bookies}) > 1:
        text.append(f"  on {bookie.node}", "dim")
    if bookie.is_updated is False:
        text.append("  has its former settings", "yellow")
    if bookie.restarts:
        text.append(f"  {count(bookie.restarts, 'restart')}")
    return text


def last_stop(bookie: BookieStatus) -> str:
    """How the process before this boot ended, in a word; empty before the first boot."""
    stop = bookie.last_shutdown
    if stop is None:
        return ""
    return stop.reason or ("CleanStop" if stop.clean else "UncleanShutdown")


def disk_text(disk: DiskStatus, *, wide: bool = True) -> Text:
    verdict = disk.verdict or "not looked at yet"
    style = "green" if disk.verdict in GOOD_VERDICTS else "yellow"
    role = f"{disk.role}  " if disk.role != disk.name else ""
    text = Text.assemble(f"{disk.name}  {role}", (verdict, style))
    if disk.total_bytes:
        text.append(f"  {_size(disk.total_bytes)}")
    if disk.volume_uid:
        text.append(f"  volume {disk.volume_uid}", "dim")
    if disk.disk_id and wide:
        text.append(f"  id {disk.disk_id}", "dim")
    return text


def repair_text(repair: RepairStatus, now: datetime) -> Text:
    text = Text.assemble((repair.state.lower(), _REPAIR_STYLES[repair.state]))
    if repair.attempt:
        text.append(f", attempt {repair.attempt}")
    if repair.state is RepairState.RUNNING and repair.started_at is not None:
        text.append(f" for {span(now - repair.started_at)}")
    if repair.progress:
        text.append(f", {repair.progress}")
    text.append(engine_text(repair))
    if repair.state is RepairState.FAILED and repair.next_attempt_at is not None:
        wait = repair.next_attempt_at - now
        text.append(f", next in {span(wait)}" if wait.total_seconds() > 0 else ", next is due")
    message = _why_not_whole(repair)
    return text.append(f": {message}") if message else text


def _why_not_whole(repair: RepairStatus) -> str:
    """What a person can decide is listed for itself, not bookie by bookie."""
    found = repair.undecided
    if found is None or not found.ledgers or repair.state is not RepairState.FAILED:
        return repair.message
    return f"{count(found.ledgers, 'ledger')} undecided"


def engine_text(job: EngineUse, *, with_reason: bool = True) -> Text:
    """`, engine spark-kubernetes (why), 2 executors, spark-0123`; empty when nothing is known."""
    text = Text()
    if job.engine:
        text.append(f", engine {job.engine}")
    if job.engine_reason and with_reason:
        text.append(f" ({job.engine_reason})", "dim")
    if job.executors:
        text.append(f", {count(job.executors, 'executor')}")
    if job.spark_app_id:
        text.append(f", {job.spark_app_id}", "dim")
    return text


def _process(bookie: BookieStatus) -> str:
    parts = [bookie.instance or "none"]
    if bookie.node:
        parts.append(f"on {bookie.node}")
    if bookie.control:
        parts.append(f"control {bookie.control}")
    if bookie.mode:
        parts.append(f"mode {bookie.mode}")
    if bookie.version:
        parts.append(f"version {bookie.version}")
    if bookie.rack:
        parts.append(f"rack {bookie.rack}")
    if bookie.advertised:
        parts.append(f"advertised {bookie.advertised}")
    return "  ".join(parts)


def _size(total_bytes: int) -> str:
    size, unit = float(total_bytes), "bytes"
    for larger in _UNITS:
        if round(size) < 1024:
            break
        size, unit = size / 1024, larger
    digits = f"{size:.3g}" if size < 100 else f"{size:.0f}"  # 1000 would be 1e+03
    return f"{digits} {unit}"
