"""A cluster's status as a tree: conditions, bookies, what is blocked and why, incidents.

What is as it should be takes one line; what is not is spelled out. Only what the status says is
shown: nothing is concluded here but the hints below the tree (`hints.py`).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.text import Text
from rich.tree import Tree

from bookie_operator.model.attempt_status import AttemptStatus
from bookie_operator.model.audit_status import AuditStatus, MendStatus, ScrubStatus
from bookie_operator.model.bookie_options import AckMode
from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.drain_status import DrainPhase, DrainStatus, RereplicationStatus
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.model.status import Blocked, ClusterStatus, MetadataStatus
from bookie_operator.model.undecided import how_many, named
from bookie_operator.status_tree.ages import ago, count, span
from bookie_operator.status_tree.bookies import bookie_branch, engine_text
from bookie_operator.status_tree.last_look import look_lines
from bookie_operator.status_tree.pending import undecided

CLOSED_SHOWN: Final = 3
"""Closed incidents, newest ones; open ones are all shown."""
UNDECIDED_SHOWN: Final = 5
"""Ledgers that wait for a person; when wide, all that the status names."""
LEFT_OVER_SHOWN: Final = 5
"""Bookies that left and of which something is kept; all when wide."""
GOOD_WHEN_TRUE: Final = frozenset(
    {
        ConditionType.READY.value,
        ConditionType.AVAILABLE.value,
        ConditionType.DURABILITY_VERIFIED.value,
        ConditionType.CERTIFICATES_VALID.value,
        ConditionType.TLS_IN_FORCE.value,
        ConditionType.SECRETS_USABLE.value,
    }
)
SUMMARIES: Final = frozenset(
    {
        ConditionType.READY.value,
        ConditionType.STALLED.value,
        ConditionType.DEGRADED.value,
        ConditionType.COOKIE_FIX_PENDING.value,
        ConditionType.REPAIR_STALLED.value,
    }
)
"""Conditions that often repeat what is shown at a bookie or under `blocked`."""
_CALM: Final = ("AckQuorum", "NotAudited")
"""Why the loss budget is what the spec says."""
_PHASE_STYLES: Final = {
    "Running": "bold green",
    "PossibleDataLoss": "bold red",
    "Unavailable": "bold red",
    "RepairStalled": "bold red",
}


def cluster_tree(cluster: BookieCluster, *, now: datetime, wide: bool = False) -> Tree:
    """`wide`: every disk of every bookie, processes and control planes."""
    status = cluster.status
    tree = Tree(headline(cluster), guide_style="dim")
    for line in (*condition_lines(status, now), *facts(cluster), *work(status, now)):
        tree.add(line)
    bookies = tree.add(Text("bookies", "bold"))
    for bookie in status.bookies:
        bookie_branch(bookies, bookie, status=status, now=now, wide=wide)
    if not status.bookies:
        bookies.add(Text("none reported yet", "dim"))
    waiting = undecided_lines(status, wide=wide)
    if waiting:
        branch = tree.add(Text("undecided", "bold"))
        for line in waiting:
            branch.add(line)
    if status.blocked:
        blocked = tree.add(Text("blocked", "bold"))
        for line in blocked_lines(status, now):
            blocked.add(line)
    if status.left_over:
        _add_left_over(tree.add(Text("left over", "bold")), status, wide=wide)
    shown = _worth_showing(status.incidents)
    if shown:
        incidents = tree.add(Text("incidents", "bold"))
        for incident in shown:
            incidents.add(incident_line(incident, now))
    return tree


def condition_lines(status: ClusterStatus, now: datetime) -> list[Text]:
    """Rows for the conditions that are worth showing; first, if so, that they are not of now."""
    shown = [
        _condition(condition, status=status, now=now)
        for condition in status.conditions
        if _matters(condition)
    ]
    return [*look_lines(status, now), *shown]


def facts(cluster: BookieCluster) -> list[Text]:
    """What the fleet promises and rests on."""
    spec, status = cluster.spec, cluster.status
    return [_durability(spec), _quorum(spec), _budget(status), _metadata(status.metadata)]


def work(status: ClusterStatus, now: datetime) -> list[Text]:
    """The audit, and each other kind of job that there was."""
    lines = [_audit(status.audit, now)]
    if status.mend.attempt:
        lines.append(_mend(status.mend, now))
    if status.scrub.attempt:
        lines.append(_scrub(status.scrub, now))
    if status.rereplication.attempt:
        lines.append(_rereplication(status.rereplication, now))
    if status.drain is not None:
        lines.append(_drain(status.drain, now))
    return lines


def undecided_lines(status: ClusterStatus, *, wide: bool = False) -> list[Text]:
    """Ledgers that wait for a person, and what is known of each."""
    found = undecided(status)
    rows = named(found) if wide else named(found)[:UNDECIDED_SHOWN]
    left = how_many(found) - len(rows)
    more = [Text(f"and {count(left, 'more ledger')}", "dim")] if left else []
    return [*(Text(row.text) for row in rows), *more]


def blocked_lines(status: ClusterStatus, now: datetime) -> list[Text]:
    """What is refused, by what, and why."""
    return [_blocked(items, now) for items in _alike(status.blocked)]


def left_over_rows(status: ClusterStatus) -> list[tuple[Text, Text]]:
    """What is kept of each bookie that is no member any more, and why."""
    return [
        (Text(f"{one.bookie}  {one.what}"), Text(one.message, "dim")) for one in status.left_over
    ]


def headline(cluster: BookieCluster) -> Text:
    status = cluster.status
    text = Text.assemble(
        (f"BookieCluster {cluster.metadata.name}", "bold"),
        "  ",
        (status.phase, _PHASE_STYLES.get(status.phase, "bold yellow")),
        f"  {status.ready_replicas}/{cluster.spec.replicas} ready",
    )
    if not status.conditions:
        text.append("  (no operator has reported on it)", "yellow")
    elif cluster.metadata.generation > status.observed_generation:
        text.append(
            f"  (the operator has seen generation {status.observed_generation} of "
            f"{cluster.metadata.generation})",
            "yellow",
        )
    return text


def _matters(condition: Condition) -> bool:
    if condition.type == ConditionType.READY:
        return condition.status != "True"  # the headline says so
    return condition.type in GOOD_WHEN_TRUE or condition.status != "False"


def _condition(condition: Condition, *, status: ClusterStatus, now: datetime) -> Text:
    is_good = (condition.status == "True") == (condition.type in GOOD_WHEN_TRUE)
    if condition.status == "Unknown":
        sign, style, word = "?", "yellow", f"{condition.type} unknown"
    elif is_good:
        sign, style, word = "✓", "green", condition.type
    elif condition.type in GOOD_WHEN_TRUE:
        sign, style, word = "!", "yellow", f"not {condition.type}"
    else:
        sign, style, word = "!", "yellow", condition.type
    if condition.type in (ConditionType.PROGRESSING, ConditionType.REPAIR_RUNNING):
        sign, style = "·", "cyan"
    if condition.type == ConditionType.POSSIBLE_DATA_LOSS:
        style = "bold red"
    text = Text.assemble((f"{sign} {word}", style))
    text.append(f"  {span(now - condition.last_transition_time)}", "dim")
    text.append(f"  {condition.reason}")
    is_reported = sign == "✓" or not condition.message or _is_said_below(condition, status)
    return text if is_reported else text.append(f": {condition.message}")


def _is_said_below(condition: Condition, status: ClusterStatus) -> bool:
    """A summary of what the tree shows where it belongs."""
    if condition.type not in SUMMARIES:
        return False
    said = [item.message for item in status.blocked]
    said += [other.message for other in status.conditions if other.type not in SUMMARIES]
    said += [row.text for row in named(undecided(status))]
    said += [bookie.message for bookie in status.bookies]
    said += [bookie.repair.message for bookie in status.bookies if bookie.repair is not None]
    return any(text and text in condition.message for text in said)


def _durability(spec: ClusterSpec) -> Text:
    if spec.journal_write_data:
        mode = "entries in the journal, acks once it is synced"
    elif spec.ack is AckMode.SYNC:
        mode = "no journal for entries, acks once the log is synced"
    else:
        every = f"{spec.flush_interval_seconds:g}s"
        mode = f"no journal for entries, acks from memory, flushed every {every}"
    return Text.assemble(("durability  ", "dim"), mode)


def _quorum(spec: ClusterSpec) -> Text:
    quorum = spec.quorum
    numbers = f"ensemble {quorum.ensemble}, write {quorum.write}, ack {quorum.ack}"
    return Text.assemble(("quorum      ", "dim"), numbers)


def _budget(status: ClusterStatus) -> Text:
    """How many bookies may be out at once, and why."""
    budget, text = status.loss_budget, Text.assemble(("budget      ", "dim"))
    if budget is None:
        return text.append("not known yet")
    text.append(
        f"{budget.limit} may be out at once, {status.disruptions_allowed} may be evicted now: "
    )
    return text.append(budget.message, "" if budget.reason in _CALM else "yellow")


def _metadata(metadata: MetadataStatus) -> Text:
    if metadata.reachable:
        return Text.assemble(("metadata    ", "dim"), metadata.url)
    trouble = "does not answer" if metadata.url else "not asked yet"
    where = f"{metadata.url}  " if metadata.url else ""
    return Text.assemble(("metadata    ", "dim"), where, (trouble, "yellow"))


def _audit(audit: AuditStatus, now: datetime) -> Text:
    found = f"{count(audit.ledgers, 'ledger')}, {audit.entries} entries{_findings(audit)}"
    text = _last("audit", audit, now, found=found, none="none yet")
    if audit.finished_at is not None and audit.engine:
        text.append(f"  ({audit.engine})", "dim")
    text.append(_since(audit))
    if audit.next_at is not None and not audit.running and audit.next_at > now:
        text.append(f"; next in {span(audit.next_at - now)}", "dim")
    return text


def _mend(mend: MendStatus, now: datetime) -> Text:
    found = (
        f"{count(mend.ledgers, 'ledger')}: {mend.entries_copied} entries copied, "
        f"{mend.blocked} ledgers not mended"
    )
    text = _last("mend", mend, now, found=found, none="none has finished")
    return text.append(_since(mend))


def _scrub(scrub: ScrubStatus, now: datetime) -> Text:
    found = (
        f"{count(scrub.ledgers, 'ledger')}, {scrub.entries} entries: "
        f"{scrub.corrupt_found} corrupt, {scrub.corrupt_replaced} replaced"
    )
    text = _last("scrub", scrub, now, found=found, none="none has finished")
    return text.append(_since(scrub))


def _rereplication(done: RereplicationStatus, now: datetime) -> Text:
    found = (
        f"{done.bookie or 'marks'}: {count(done.ledgers_moved, 'ledger')} moved, "
        f"{done.ledgers_left} left, {done.marks_cleared} of {done.marks_found} marks cleared"
    )
    text = _last("re-replication", done, now, found=found, none="none has finished")
    if done.message and not (done.running or done.failures):
        text.append(f": {done.message}", "yellow")
    return text.append(_since(done))


def _last(kind: str, status: AttemptStatus, now: datetime, *, found: str, none: str) -> Text:
    """When the last job finished and what it found; `none` if none has finished."""
    text = Text.assemble((f"last {kind}  ", "dim"))
    if status.finished_at is None:
        return text.append(none)
    word, style = {
        True: ("clean", "green"),
        False: ("with findings", "yellow"),
        None: ("refused", "yellow"),
    }[status.clean]
    return text.append(f"{ago(status.finished_at, now)}  ").append(word, style).append(f"  {found}")


def _since(status: AttemptStatus) -> Text:
    """What became of the attempts after it."""
    if status.running:
        far = status.message or status.progress
        return Text(f"; one runs{': ' if far else ''}{far}", "cyan")
    failed = f"; {status.failures} failed since: {status.message}" if status.failures else ""
    return Text(failed, "yellow")


def _drain(drain: DrainStatus, now: datetime) -> Text:
    """The bookie that leaves since fewer are wanted, and how far it is."""
    style = "yellow" if drain.phase is DrainPhase.HELD else "cyan"
    text = Text.assemble(
        ("drain       ", "dim"),
        f"{drain.bookie}  ",
        (drain.phase.value.lower(), style),
        (f"  {span(now - drain.started_at)}", "dim"),
    )
    if drain.ledgers_left is not None:
        text.append(f"  {count(drain.ledgers_left, 'ledger')} left")
    if drain.ledgers_moved:
        text.append(f", {drain.ledgers_moved} moved with {drain.entries_copied} entries")
    if drain.attempt:
        text.append(f", attempt {drain.attempt}")
    if drain.is_running:
        text.append(" runs")
    elif drain.next_attempt_at is not None and drain.next_attempt_at > now:
        text.append(f", next in {span(drain.next_attempt_at - now)}")
    text.append(engine_text(drain))
    message = "; ".join(filter(None, (drain.message or drain.progress, drain.racks)))
    return text.append(f": {message}") if message else text


def _findings(audit: AuditStatus) -> str:
    """The counts that are not zero, in the conditions' words."""
    counts = (
        (audit.missing, "missing"),
        (audit.unknown, "unknown"),
        (audit.below_ack_quorum, "below ack quorum"),
        (audit.no_copy + audit.lost, "with no copy left"),
        (audit.accepted_losses, "losses accepted"),
    )
    parts = [*(f"{count} {word}" for count, word in counts if count), *audit.not_seen]
    return f": {', '.join(parts)}" if parts else ""


def _alike(items: Iterable[Blocked]) -> list[list[Blocked]]:
    """What one predicate refuses to several bookies for the same reason is shown once."""
    groups: dict[tuple[str, str, str], list[Blocked]] = {}
    for item in items:
        groups.setdefault((item.action, item.predicate, item.message), []).append(item)
    return list(groups.values())


def _blocked(items: list[Blocked], now: datetime) -> Text:
    item = min(items, key=lambda one: one.since)
    bookies = ", ".join(sorted(one.bookie for one in items if one.bookie))
    return Text.assemble(
        f"{item.action}  {bookies}{'  ' if bookies else ''}refused by ",
        (item.predicate, "yellow"),
        (f"  {span(now - item.since)}", "dim"),
        f"  {item.message}" if item.message else "",
    )


def _add_left_over(branch: Tree, status: ClusterStatus, *, wide: bool) -> None:
    rows = left_over_rows(status)
    shown = rows if wide else rows[:LEFT_OVER_SHOWN]
    for what, why in shown:
        branch.add(what).add(why)
    if hidden := len(rows) - len(shown):
        branch.add(Text(f"and {hidden} more: -o wide", "dim"))


def _worth_showing(incidents: Iterable[Incident]) -> list[Incident]:
    """All that are open and the last that were closed, in the order of their detection."""
    listed = list(incidents)
    is_open = [incident.outcome is IncidentOutcome.OPEN for incident in listed]
    closed = [place for place, still_open in enumerate(is_open) if not still_open]
    kept = set(closed[-CLOSED_SHOWN:])
    return [listed[place] for place in range(len(listed)) if is_open[place] or place in kept]


def incident_line(incident: Incident, now: datetime) -> Text:
    """What is over is shown more briefly."""
    is_open = incident.outcome is IncidentOutcome.OPEN
    style = {
        IncidentOutcome.OPEN: "yellow",
        IncidentOutcome.CLEARED: "green",
        IncidentOutcome.SUPERSEDED: "dim",
    }[incident.outcome]
    causes = (incident.cause, incident.cause_message if is_open else "")
    cause = f"({': '.join(filter(None, causes))})  "
    text = Text.assemble(
        f"{incident.bookie}  {incident.kind}  ",
        (cause if incident.cause else "", "dim"),
        (f"{ago(incident.detected_at, now)}  ", "dim"),
        (_outcome(incident), style),
        f"  epoch {incident.boot_epoch_before} → {incident.boot_epoch_after}; {incident.marks}",
    )
    if incident.entries_brought_back:
        text.append(f"; {incident.entries_brought_back} entries brought back")
    text.append(engine_text(incident, with_reason=is_open))
    if incident.attempts > 1:
        text.append(f", {incident.attempts} attempts")
    return text


def _outcome(incident: Incident) -> str:
    if incident.outcome is IncidentOutcome.CLEARED and incident.seconds_to_clear is not None:
        return f"cleared in {span(incident.seconds_to_clear)}"
    return incident.outcome.value.lower()
