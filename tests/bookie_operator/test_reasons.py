"""The table of all that can be told: each state and reason has a condition, a hint and a row.

Reasons are read out of the planner's own code, so that one that is added and not told of fails
here: no scene, no hint, or no row in docs/operating.md.
"""

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import bookie_operator.plan
import pytest
from bookie.wire.admin.health import Phase
from bookie_operator.kubectl.__main__ import plugin
from bookie_operator.kubectl.hints import hints
from bookie_operator.model.audit_status import AuditStatus, ScrubStatus
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.drain_status import RereplicationStatus
from bookie_operator.model.refused import RANKED
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Bookie, Exit, Failure, Job, JobKind, MetadataView
from bookie_operator.plan import degraded
from bookie_operator.plan.failures import ACTION_FAILED, KEEP, NAME_TAKEN
from bookie_operator.plan.invalid import INVALID_SPEC, invalid_status
from bookie_operator.plan.planner import plan
from bookie_operator.tls_view import TlsView
from operator_scenes import HEALTHY, at, bookie, cluster, fix_request, observed

PAGE = Path(__file__).parents[2] / "docs/operating.md"
WORD = re.compile(r"^[A-Z][a-z]+[A-Za-z]*$")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|")
]
TOLD = {word for row in ROWS for cell in row[:2] for word in re.findall(r"[A-Z][A-Za-z]+", cell)}
GOOD = {
    *("AsWanted", "NoLimbo", "NonePending", "NoJob", "NotStalled", "NothingFound", "NotWanted"),
    *("NotSeen", "NotHeld", "NotPaused", "EnoughSpace"),
}
"""Of conditions that are False in a healthy cluster."""
NO_REASONS = {"True", "False", "Unknown", "Restart", "CookieFix", "Failed", "Running"}
"""Other words in the functions that tell reasons: statuses, actions, a repair's states."""


def modules() -> Iterator[ModuleType]:
    for path in sorted(Path(bookie_operator.plan.__path__[0]).glob("*.py")):
        stem = path.stem.replace("__init__", "")
        yield import_module(f"bookie_operator.plan.{stem}".rstrip("."))


def words_in(node: ast.AST, module: ModuleType) -> Iterator[str]:
    """Constants, and names of constants, that look like a reason."""
    for one in ast.walk(node):
        found = one.value if isinstance(one, ast.Constant) else None
        if isinstance(one, ast.Name) and one.id.isupper():
            found = getattr(module, one.id, None)
        if isinstance(found, str) and WORD.match(found) and found not in NO_REASONS:
            yield found


def functions(module: ModuleType) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def reasons(*returning: str) -> set[str]:
    """Of conditions: words in functions that return a verdict."""
    found = set()
    for module in modules():
        for function in functions(module):
            if function.returns is not None and ast.unparse(function.returns) in returning:
                found |= set(words_in(function, module))
    return found


def predicates() -> set[str]:
    """Words in the calls that make a refusal."""
    found = set()
    for module in modules():
        for function in functions(module):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and "efus" in ast.unparse(node.func):
                    found |= set(words_in(node, module))
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "_wait":
                    found |= set(words_in(node, module))
    return found - set(ACTIONS)


ACTIONS = ("Start", "Repair", "AcceptLoss", "Collect", "RebuildIndex", "ReplaceDisk", "ScaleDown")
OF_CONDITIONS = reasons("Verdict", "Verdict | None") - {INVALID_SPEC, *ACTIONS}
OF_DEGRADED = {
    *(reasons("_Reason") - {"True"}),
    *degraded._WAITS.values(),
    *degraded._BROKEN.values(),
    *RANKED,
    ACTION_FAILED,
    INVALID_SPEC,
}

# Scenes

B0, B1 = "bookie-0", "bookie-1"
LOOKED = at(0)


def told(*special: Bookie, before: ClusterStatus | None = None, **seen: object) -> ClusterStatus:
    first = before or plan(cluster(), observed(), ClusterStatus()).status
    look = replace(observed(*special, seconds=100), **seen)  # type: ignore[arg-type]
    return plan(cluster(), look, first).status


def refusing(message: str, verdict: str = "ok") -> ClusterStatus:
    verdicts = {"ledger-0": verdict}
    return told(bookie(B0, phase=Phase.REFUSED, message=message, verdicts=verdicts))


def asking(name: str, verdict: str = "empty") -> Bookie:
    verdicts = {"ledger-0": verdict}
    return bookie(name, phase=Phase.AWAITING_APPROVAL, fix=fix_request(), verdicts=verdicts)


def down(**process: object) -> Bookie:
    return bookie(B0, phase=None, running=False, process_facts=process)


def in_a_loop() -> ClusterStatus:
    status = plan(cluster(), observed(), ClusterStatus()).status
    for seconds in (97, 98, 99):
        end = Exit(at(seconds), 1, "exit code 1")
        status = told(down(last_exit=end), before=status)
    return status


def stalled() -> ClusterStatus:
    failed = Job(
        name="demo-bookie-0-2-5",
        kind=JobKind.REPAIR,
        attempt=5,
        running=False,
        started_at=at(10),
        ended_at=at(20),
        bookie=bookie(B0).id,
        boot_epoch=2,
        exit_code=1,
    )
    marked = bookie(B0, epoch=2, reason="UncleanShutdown", limbo=3)
    return told(marked, jobs=(failed,))


def with_status(**parts: object) -> ClusterStatus:
    settled = plan(cluster(), observed(), ClusterStatus()).status
    return told(before=settled.model_copy(update=parts))


def not_kept(reason: str) -> ClusterStatus:
    """An object that cannot be written, twice in a row."""
    failure = Failure("service", KEEP, "refused", at(200), count=2, reason=reason)
    return told(failures=(failure,))


def at_once() -> ClusterStatus:
    lost = [bookie(n, epoch=2, reason="UncleanShutdown", limbo=3) for n in (B0, B1)]
    return told(*lost)


def one_after_another() -> ClusterStatus:
    fixed = bookie(B0, epoch=2, reason="DiskReplaced")
    return told(fixed, asking(B1), before=told(fixed))


SCENES: dict[str, Callable[[], ClusterStatus]] = {
    "PossibleDataLoss": at_once,
    "LineageMismatch": lambda: told(metadata=replace(HEALTHY, instance_id="other")),
    "MetadataRolledBack": lambda: told(bookie(B0, metadata_rolled_back="older")),
    "Forbidden": lambda: told(forbidden="jobs is forbidden"),
    "NameTaken": lambda: not_kept(NAME_TAKEN),
    "ActionFailed": lambda: not_kept(ACTION_FAILED),
    "MetadataUnreachable": lambda: told(metadata=MetadataView(url="zk://x/l", message="no")),
    "SwappedDisk": lambda: refusing("swapped", "swapped"),
    "ForeignDisk": lambda: refusing("another bookie's", "foreign"),
    "ReshapedDisks": lambda: refusing("stamped with 3", "reshaped"),
    "TornStamp": lambda: refusing("is no stamp", "torn"),
    "IndexLost": lambda: refusing("run `bookie index rebuild` for /data/ledger-0"),
    "LogLost": lambda: refusing("/data/ledger-0/log: treat the directory as lost"),
    "IdentityInUse": lambda: refusing("bookie-0 is registered and alive at x:1"),
    "FoldersInUse": lambda: refusing("/data/ledger-0 is in use by another bookie process (pid 7)"),
    "FixNotAllowed": lambda: refusing("cookie fix policy is Never", "empty"),
    "RefusedCookie": lambda: refusing("the metadata store has no cookie of bookie-0"),
    "RefusedBoot": lambda: refusing("something new"),
    "SuspectDisk": lambda: told(asking(B0, "stale")),
    "MultipleBookiesChanged": one_after_another,
    "ImageUnavailable": lambda: told(down(waiting="ErrImagePull: no")),
    "Unschedulable": lambda: told(down(waiting="Unschedulable: no room")),
    "ContainerConfig": lambda: told(down(waiting="CreateContainerConfigError: no secret")),
    "BookieCrashLoop": in_a_loop,
    "BookieUnresponsive": lambda: told(bookie(B0, phase=None)),
    "NodeLost": lambda: told(down(node="n7", node_trouble="is gone")),
    "BookieDown": lambda: told(down(last_exit=Exit(at(99), -9, "signal 9"))),
    "BookieReadOnly": lambda: told(bookie(B0, phase=Phase.READ_ONLY, message="full")),
    "RepairStalled": stalled,
    "AuditFindings": lambda: with_status(
        audit=AuditStatus(finished_at=at(50), started_at=at(50), clean=False, missing=3)
    ),
    "ScrubFindings": lambda: with_status(scrub=ScrubStatus(finished_at=LOOKED, clean=False)),
    "RereplicationFindings": lambda: with_status(
        rereplication=RereplicationStatus(finished_at=LOOKED, clean=False)
    ),
    "CollectionHeld": lambda: told(
        bookie(B0, collection_held="90 of 100; approve plan f00d", collection_plan_id="f00d")
    ),
    "CertificatesInvalid": lambda: told(
        bookie(B0, process_facts={"tls": TlsMode.ACCEPTED}),
        tls=TlsView(hosts={}, denied="secrets is forbidden"),
    ),
    "InvalidSpec": lambda: invalid_status(told(), 2, "replicas", at(1)),
}
STATES: dict[BookieState, Callable[[], ClusterStatus]] = {
    BookieState.PENDING: lambda: plan(cluster(), observed(none()), ClusterStatus()).status,
    BookieState.REFUSED: SCENES["RefusedBoot"],
    BookieState.UNRESPONSIVE: SCENES["BookieUnresponsive"],
    BookieState.CRASH_LOOP: in_a_loop,
    BookieState.DOWN: SCENES["BookieDown"],
    BookieState.READ_ONLY: SCENES["BookieReadOnly"],
    BookieState.AWAITING_APPROVAL: SCENES["SuspectDisk"],
}
"""States that a person may have to do something about."""
BY_ITSELF = {
    *(BookieState.STARTING, BookieState.BOOTING, BookieState.MARKING, BookieState.SERVING),
    *(BookieState.LIMBO, BookieState.DRAINING, BookieState.LEAVING, BookieState.STOPPING),
}
"""States that pass, or are as they should be: nobody needs to do anything."""


def none() -> Bookie:
    return replace(bookie(B0), process=None, health=None, is_writable=False)


def hinted(status: ClusterStatus) -> set[str]:
    found = hints(cluster().model_copy(update={"status": status}), now=at(0))
    return {shlex.join(hint.command) or hint.text for hint in found}


@pytest.mark.parametrize("reason", sorted(OF_DEGRADED))
def test_every_reason_of_degraded_is_a_condition_with_a_hint(reason: str) -> None:
    assert reason in SCENES, "a scene that shows it, and what to do then"
    status = SCENES[reason]()
    found = status.condition(ConditionType.DEGRADED)
    assert found is not None and (found.status, found.reason) == ("True", reason)
    assert hinted(status) - hinted(told()), "kubectl/hints.py, refusals.py or reasons.py"


def test_no_scene_is_left_of_a_reason_that_is_gone() -> None:
    assert set(SCENES) == OF_DEGRADED


@pytest.mark.parametrize("state", list(BookieState))
def test_every_state_passes_or_has_a_hint(state: BookieState) -> None:
    assert (state in STATES) != (state in BY_ITSELF), "does a person have to do something?"
    if state in STATES:
        status = STATES[state]()
        assert state in [one.state for one in status.bookies]
        assert hinted(status) - hinted(told())


@pytest.mark.parametrize(
    "word", sorted({*OF_CONDITIONS, *OF_DEGRADED, *predicates(), *BookieState} - GOOD)
)
def test_every_word_has_a_row_in_the_page(word: str) -> None:
    assert word in TOLD, "docs/operating.md: a row with it in its first two cells"


@pytest.mark.parametrize("kind", list(ConditionType))
def test_every_condition_has_its_rows_in_the_page(kind: ConditionType) -> None:
    assert [row for row in ROWS if row[0] == kind.value]


@pytest.mark.parametrize("reason", sorted(SCENES))
def test_a_hinted_command_of_ours_parses(reason: str) -> None:
    status = SCENES[reason]()
    for hint in hints(cluster().model_copy(update={"status": status}), now=at(0)):
        if hint.command[:1] == ("bookie",):
            plugin.commands[hint.command[1]].make_context(hint.command[1], [*hint.command[2:]])


def test_the_words_are_found_at_all() -> None:
    assert {"BelowEnsemble", "AuditStale", "LossRecorded", "WaitingForLease"} <= OF_CONDITIONS
    assert {"PossibleDataLoss", "Paused", "LimboPresent", "NotRefused"} <= predicates()
