"""What a person can do now: a sentence and, where there is one, the command to copy.

Pure: it needs only the status and the time. The most urgent hint comes first; a healthy cluster has
none, and what the operator does by itself needs none.
"""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.text import Text

from bookie_operator.kubectl.advice import Hint
from bookie_operator.kubectl.drain_hints import drain_hints
from bookie_operator.kubectl.reasons import reason_hints
from bookie_operator.kubectl.refusals import refusal_hint
from bookie_operator.model.bookie_status import BookieState, BookieStatus, RepairState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.incidents import IncidentOutcome
from bookie_operator.model.status import LAST_COPY, ClusterStatus
from bookie_operator.model.undecided import how_many, selector
from bookie_operator.status_tree.ages import count
from bookie_operator.status_tree.last_look import no_look
from bookie_operator.status_tree.pending import held_collections, pending_fixes, undecided

_AUDIT_HELPS: Final = ("AuditPending", "AuditStale")
_LOSSES: Final = {
    "OverlappingUnclean": (
        "Possible data loss: the operator disturbs no bookie until repairs have cleared limbo "
        "and an audit is clean. If old disks can come back, bring them back first."
    ),
    "AuditMissing": (
        "Entries have no copy left. Bring back every bookie and disk that can come back; for what "
        'cannot, inform the owners of the ledgers (docs/operating.md, "Possible data loss").'
    ),
    "LossRecorded": (
        "Bookies hold records of entries that are permanently lost: inform the owners of the "
        "ledgers. This condition stays. If a record is wrong, withdraw it (`kubectl bookie "
        "retract-loss LEDGER REASON`)."
    ),
    "LossAccepted": (
        "A person has closed ledgers and accepted a possible loss: inform their owners. This "
        "condition stays, and prevents nothing."
    ),
}


def hints(cluster: BookieCluster, *, now: datetime) -> list[Hint]:
    return list(_hints(cluster, cluster.status, now))


def _hints(cluster: BookieCluster, status: ClusterStatus, now: datetime) -> Iterator[Hint]:
    if not status.conditions:
        yield Hint(
            "No operator has reported on this cluster: is one running?",
            ("get", "deployments", "-A", "-l", "app.kubernetes.io/name=bookie-operator"),
        )
        return
    name = cluster.metadata.name
    if no_look(status, now):
        yield Hint(
            "The status is not renewed: does the operator run, and may it write?",
            ("get", "pods", "-A", "-l", "app.kubernetes.io/name=bookie-operator"),
        )
    if cluster.spec.paused:
        yield Hint(
            "spec.paused stops the operator. To let it work again:",
            ("bookie", "resume", "--cluster", name),
        )
    yield from _consents(name, status)
    yield from _losses(name, status)
    for bookie in status.bookies:
        yield from _bookie(name, bookie)
    yield from _repairs(name, status)
    yield from reason_hints(name, status)
    yield from _cluster(name, status)
    yield from drain_hints(cluster)


def _consents(name: str, status: ClusterStatus) -> Iterator[Hint]:
    for fix in pending_fixes(status):
        disks = ", ".join(disk.name for disk in fix.disks) or "its disks"
        yield Hint(
            f"{fix.bookie} asks whether it may give up the old content of {disks}. If the old "
            "disks can come back, put them back instead. If they are permanently lost, approve:",
            ("bookie", "approve", fix.bookie, "--cluster", name, "--plan", fix.plan_id),
        )


def _losses(name: str, status: ClusterStatus) -> Iterator[Hint]:
    found = undecided(status)
    selected = selector(found)
    if selected is not None:
        yield Hint(
            f"{count(how_many(found), 'ledger')} cannot be closed, since nobody can say whether "
            "their last entries were acknowledged. If an old disk can come back, bring it back "
            "first. If none can, see what a decision would mean, and run the command again without "
            "--dry-run to accept the loss:",
            ("bookie", "accept-loss", str(selected), "REASON", "--cluster", name, "--dry-run"),
        )


def _bookie(name: str, bookie: BookieStatus) -> Iterator[Hint]:
    pod = f"{name}-{bookie.id}-0"
    if bookie.state is BookieState.REFUSED:
        yield refusal_hint(name, bookie)
    elif bookie.state is BookieState.UNRESPONSIVE:
        yield Hint(f"{bookie.id}: {bookie.message}. Show its log:", ("logs", pod, "-c", "bookie"))
    elif bookie.state is BookieState.CRASH_LOOP:
        yield Hint(
            f"{bookie.id} ends each time it starts. The last lines of its log:",
            ("logs", pod, "-c", "bookie", "--previous"),
        )
    elif bookie.state is BookieState.READ_ONLY:
        yield Hint(
            f"{bookie.id} takes no new entries: {bookie.message or 'it does not say why'}. If it "
            "lacks space, delete ledgers or give it larger volumes; then it takes entries again "
            "by itself. Show its volumes:",
            ("exec", pod, "-c", "bookie", "--", "df", "-h"),
        )
    elif bookie.state in (BookieState.PENDING, BookieState.DOWN):
        yield Hint(f"{bookie.id} has no running process. Show why:", ("describe", "pod", pod))


def _repairs(name: str, status: ClusterStatus) -> Iterator[Hint]:
    failed = [
        b.id
        for b in status.bookies
        if b.repair is not None and b.repair.state is RepairState.FAILED
    ]
    if failed:
        yield Hint(
            f"The repair of {', '.join(failed)} has failed; the operator tries again later. To try "
            "now:",
            ("bookie", "repair", failed[0], "--cluster", name),
        )


def _cluster(name: str, status: ClusterStatus) -> Iterator[Hint]:
    loss = status.condition(ConditionType.POSSIBLE_DATA_LOSS)
    if loss is not None and loss.status == "True":
        yield Hint(_LOSSES.get(loss.reason, _LOSSES["AuditMissing"]))
    yield from _metadata(name, status)
    if status.is_true(ConditionType.SPACE_LOW):
        yield Hint(
            "Disks are nearly full; their bookies will stop taking new entries. Delete ledgers, "
            "add a bookie, or give the disks larger volumes:",
            ("edit", "bookiecluster", name),
        )
    verified = status.condition(ConditionType.DURABILITY_VERIFIED)
    is_calm = not any(i.outcome is IncidentOutcome.OPEN for i in status.incidents)
    is_unproven = verified is not None and verified.reason in _AUDIT_HELPS
    if verified is not None and verified.reason == "AuditFindings" and not status.mend.running:
        yield Hint(
            "An audit found missing or wrong copies. The operator makes them again from good "
            "copies, unless spec.audit.onFindings is Report. To do it now:",
            ("bookie", "repair", "--cluster", name),
        )
    if is_unproven and is_calm and not status.audit.running:
        yield Hint("To check every copy now:", ("bookie", "audit", "--cluster", name))
    if any(item.predicate == LAST_COPY for item in status.blocked):
        yield Hint(
            "Copies are missing, and the operator does not touch a bookie that may hold the last "
            "ones. A scrub makes again the copies that can be made, and an audit follows it:",
            ("bookie", "scrub", "--cluster", name),
        )


def _metadata(name: str, status: ClusterStatus) -> Iterator[Hint]:
    """Hints about the metadata store."""
    if status.is_true(ConditionType.METADATA_ROLLED_BACK):
        yield Hint(
            "The metadata store looks rolled back to an earlier state: until that is solved, the "
            "operator and the bookies collect, repair and remove nothing. Put the newest state "
            'back, or accept this one (docs/operating.md, "A metadata store that went back"). To '
            "stop everything else:",
            ("bookie", "pause", "--cluster", name),
        )
    for held in held_collections(status):
        yield Hint(
            f"Many ledgers of {held.bookie} are missing in the metadata store, and it keeps their "
            "entries. Only if they were deleted on purpose, let it remove the entries:",
            (
                *("bookie", "approve-collection", held.bookie),
                *("--cluster", name, "--plan", held.plan_id),
            ),
        )
    if not status.metadata.reachable and status.metadata.url:
        yield Hint(
            "The metadata store does not answer: bring it back. Until then, bookies serve the "
            "ledgers that are open."
        )


def hint_lines(found: Sequence[Hint], *, flags: Sequence[str]) -> list[Text]:
    """The lines to print; each command is on its own line, with the kubectl flags of this call."""
    if not found:
        return []
    lines = [Text("\nwhat to do", "bold")]
    for hint in found:
        lines.append(Text(f"  {hint.text}"))
        if hint.command:
            lines.append(Text(f"    {shlex.join(['kubectl', *hint.command, *flags])}", "cyan"))
    return lines
