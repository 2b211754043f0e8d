"""One story: a clean namespace, a fleet, faults, a load that runs the whole time, and notes.

`conftest` makes one per test; whatever went wrong, everything there is to see of the namespace is
kept in e2e/artifacts/<story> before it is deleted.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bookie.testing.apache import NoToolsError
from judge_java import ENTRY_LOST, WHOLE

from harness import manifests
from harness.artifacts import dump
from harness.claims import is_whole, out_at_once, seconds_after_up
from harness.faults import Faults
from harness.fleet import BKC, BKT, Fleet, condition_of
from harness.judge import CHECK_S, OPTIONS, Judge
from harness.kind import Kind
from harness.kube import Kube, Object, wait_for
from harness.load import Load
from harness.looks import Looks, blind, held_against
from harness.manifests import BOOKIE_IMAGE, CLUSTER, WRITER, WRITER_SCRIPT
from harness.operator import Operator
from harness.settings import ARTIFACTS
from harness.status_claims import untrue_when_whole
from harness.watch import Watch

OURS: Final = "bookkeeper.bookie-operator.dev/component in (bookie,zookeeper)"
BOOKIE_PODS: Final = "bookkeeper.bookie-operator.dev/component=bookie"
BOOKIE_LABEL: Final = "bookkeeper.bookie-operator.dev/bookie"
GONE_S: Final = 120.0
FINALIZERS_S: Final = 30.0
INCIDENTS_MAX: Final = 50
"""So many the status has room for."""
BUDGET: Final = f"{CLUSTER}-bookies"
BUDGET_S: Final = 60.0
VERIFIED_S: Final = 180.0
"""An audit, the repair of what it found, and the audit that follows."""


class Story:
    """What a test is told with; `numbers` stand beside its time in the table."""

    def __init__(self, kind: Kind, letter: str) -> None:
        self.kind = kind
        self.letter = letter
        self.name = f"e2e-{letter}"
        self.kube = kind.kube.within(self.name)
        self.operator = Operator(kind)
        self.fleet = Fleet(self.kube)
        self.faults = Faults(kind, self.fleet)
        self.numbers: dict[str, Any] = {}
        self._load: Load | None = None
        self._judge: Judge | None = None
        self._judge_writes = False
        self._audits = 0
        self._change: Mapping[str, Any] = {}

    @property
    def folder(self) -> Path:
        return ARTIFACTS / self.letter

    # Begin and end
    def begin(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        remove_namespace(self.kind.kube, self.name)
        self.kind.kube.apply(manifests.namespace(self.name))

    def end(self) -> None:
        self.fleet.stop_watching()
        remove_namespace(self.kind.kube, self.name)

    def keep_what_is_seen(self) -> Path:
        """Manifests, events and logs, for whoever looks why the story failed."""
        dump(self.kube, self.operator, self.folder)
        return self.folder

    def boots(self) -> dict[str, Any]:
        """What changes when a pod or a process of the fleet is not what it was."""
        pods = {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                [one["restartCount"] for one in pod["status"]["containerStatuses"]],
            )
            for pod in self.kube.items("pods", OURS)
        }
        epochs = {one["id"]: one["bootEpoch"] for one in self.fleet.status()["bookies"]}
        return {"pods": pods, "epochs": epochs}

    def bookie_pods(self) -> dict[str, str]:
        """uids by name."""
        pods = self.kube.items("pods", BOOKIE_PODS)
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    def bookie_images(self) -> dict[str, str]:
        """By bookie, as the pods have them: not the operator's word."""
        pods = self.kube.items("pods", BOOKIE_PODS)
        return {
            pod["metadata"]["labels"][BOOKIE_LABEL]: pod["spec"]["containers"][0]["image"]
            for pod in pods
        }

    # The fleet and its load
    def up(self, change: Mapping[str, Any] | None = None) -> None:
        """The cluster of the manifest, with `change` over it, whole."""
        self._change = change or {}
        self.fleet.apply(self._change)
        self.fleet.wait_whole()

    def again(self) -> None:
        """The same cluster once more, after it was deleted: over the volumes that are there."""
        self.fleet = Fleet(self.kube)
        self.faults = Faults(self.kind, self.fleet)
        self.up(self._change)

    def write(
        self,
        *,
        prefill: tuple[int, int] = (0, 0),
        rate: int = 240,
        image: str = BOOKIE_IMAGE,
        script: Path = WRITER_SCRIPT,
        pod: str = WRITER,
        clients: str = "",
        judged: bool = True,
        seed: int = 1,
        options: Sequence[str] = OPTIONS,
    ) -> Load:
        """Start the writer that runs until `nothing_is_lost`, and the judge beside it.

        `clients`: how both talk; else as the spec says. `judged`: False where a stock client cannot
        be in the story. `seed`, `options`: the judge's.
        """
        url, clients = self.fleet.metadata_url(), clients or self.fleet.tls_mode()
        self._load = Load(self.kube, url, image=image, script=script, pod=pod, clients=clients)
        self._load.start(prefill=prefill, rate=rate)
        if judged:
            self._judge = Judge(self.kube, url, clients=clients)
            try:
                self.judge_begins(seed=seed, options=options)
            except NoToolsError as error:
                self._judge = None
                self.numbers["not_judged"] = f"SKIPPED: {error}"
        return self._load

    def judge_begins(self, *, seed: int, options: Sequence[str] = OPTIONS) -> None:
        """To write, for the first time or once more after `judge_ends`."""
        assert self._judge is not None, "no judge is in this story"
        self._judge.start(seed=seed, options=options)
        self._judge_writes = True

    @property
    def load(self) -> Load:
        assert self._load is not None, "no load runs in this story: call write()"
        return self._load

    def read_back(self) -> Object:
        """Stop the writer, read every acknowledged entry with a fresh client; what was found."""
        told = self.load.stop()
        found = self.load.check()
        assert found["acked"] == told["acked"], f"noted {found['acked']}, acked {told['acked']}"
        self.numbers |= {"acked": found["acked"], "ledgers": found["ledgers"]}
        self.numbers["longest_gap_s"] = told["longest_gap_s"]
        return found

    def nothing_is_lost(self) -> None:
        """Every entry that was ever acknowledged reads back, byte by byte, and has each copy.

        What the faults left with fewer copies than it should have is made whole by an audit.
        """
        self.judge_ends()
        is_whole(self.read_back())
        self.every_copy_is_there()

    def every_copy_is_there(self) -> None:
        """Each bookie has the copies that it owes, digests and all, after an audit of now; and what
        the status says then is true of the pods and of itself."""
        self._audits += 1
        audited = self.fleet.ask(f"copies-{self._audits}", {"type": "audit"})
        assert audited["phase"] == "Succeeded", audited
        self.fleet.wait_condition("DurabilityVerified", seconds=VERIFIED_S)
        self._ask_for_copies()
        written = int(self.numbers.get("acked", 0))
        cluster, pods = self.fleet.object(), self.kube.items("pods", BOOKIE_PODS)
        assert (untrue := untrue_when_whole(cluster, pods, entries=written)) == [], untrue

    @contextlib.contextmanager
    def looked_at(self, *, misses: bool = False) -> Iterator[None]:
        """The copies are counted the whole time; never is it verified while one is missing.

        `misses`: the fault is one that leaves entries with a copy less, and the looks must see it.
        """
        began, looks = datetime.now(UTC), Looks(self.load).start()
        try:
            yield
        finally:
            looks.stop()
        looks.look()
        seen = self.fleet.watch.versions()
        most = max(len(look.missing) for look in looks.done)
        self.numbers |= {"looks": len(looks.done), "most_missing": most}
        reasons = blind(looks.done, seen, began=began)
        assert not reasons, (reasons, looks.failed[-1:])
        found = held_against(looks.done, seen, "DurabilityVerified")
        assert not found, found[:3]
        assert most or not misses, "no look saw a copy missing"

    def verified_by_itself(self, since: datetime) -> None:
        """An audit that began after `since` says that every copy is there; nobody asked for it."""

        def verified(found: Object) -> bool:
            began = found["status"]["audit"].get("startedAt")
            one = condition_of(found, "DurabilityVerified")
            late = began is not None and datetime.fromisoformat(began) > since
            return late and one["status"] == "True"

        self.fleet.wait(f"DurabilityVerified of after {since:%T}", verified, seconds=VERIFIED_S)
        took = (datetime.now(UTC) - since).total_seconds()
        self.numbers["verified_after_s"] = round(took, 1)

    def nothing_is_missing(self) -> None:
        """The same as the fleet is now: no audit is asked for, and nothing is mended."""
        self.judge_ends()
        is_whole(self.read_back())
        self._ask_for_copies()

    def _ask_for_copies(self) -> None:
        found = self.load.copies()
        assert found["exit_code"] == 0, found["findings"][:3]
        self.numbers["copies"] = sum(one["held"] for one in found["copies"])
        if self._judge is not None:
            verdict = self.verdict()
            assert verdict["exitCode"] == WHOLE, verdict

    def judge_ends(self) -> None:
        """The judge's writer; what it noted stays for the verdict."""
        if self._judge is not None and self._judge_writes:
            judged = self.numbers.get("judged", 0)
            self.numbers["judged"] = judged + self._judge.stop()["acknowledged"]
            self._judge_writes = False

    def verdict(self, *, seconds: float = CHECK_S) -> Object:
        """Of the judge, on what it wrote and on the status of now, which it never contradicts."""
        assert self._judge is not None, "no judge is in this story"
        forgotten, status = min(self.faults.forgotten, INCIDENTS_MAX), self.fleet.object()
        verdict = self._judge.check(status, faults=forgotten, seconds=seconds)
        assert verdict["exitCode"] != ENTRY_LOST, verdict
        assert verdict["statusContradicts"] == [], verdict
        self.numbers["copies_judged"] = verdict["copies"]["held"]
        return verdict

    def wait_budget(self, allowed: int) -> None:
        """Until the PodDisruptionBudget lets so many bookies be evicted."""

        def allows() -> bool:
            budget = self.kube.get("pdb", BUDGET) or {}
            spec, status = budget.get("spec") or {}, budget.get("status") or {}
            is_current = status.get("observedGeneration") == budget["metadata"]["generation"]
            return (
                is_current
                and spec.get("maxUnavailable") == allowed
                and status.get("disruptionsAllowed") == allowed
            )

        wait_for(f"a disruption budget of {allowed}", allows, seconds=BUDGET_S)

    def shown(self) -> str:
        """What `kubectl bookie status` shows a person with a wide terminal."""
        return self.plugin("status")

    def plugin(self, *words: str, seconds: float = 60.0) -> str:
        """What `kubectl bookie` prints; CommandError with its words when it fails."""
        program = ("env", "COLUMNS=400", sys.executable, "-m", "bookie_operator.kubectl")
        where = ("--context", self.kube.context, "--namespace", self.name)
        return self.kube.tool(*program, *where, *words, "--cluster", CLUSTER, seconds=seconds)

    def note(self, incident: Mapping[str, Any], *, name: str = "") -> None:
        """Figures of an incident into the table; a detection before the bookie serves is < 0."""
        start = f"{name}_" if name else ""
        for field in ("secondsToDetect", "secondsToClear", "entriesCopied", "engine"):
            if incident.get(field) not in (None, ""):
                self.numbers[start + field] = incident[field]
        self.numbers[f"{start}detectedAfterUp"] = seconds_after_up(self.fleet, incident)

    @contextlib.contextmanager
    def executors(self) -> Iterator[Watch]:
        """Spark's executor pods, seen as they come and go."""
        with self.watched("spark-role=executor") as watch:
            yield watch

    @contextlib.contextmanager
    def one_out_at_a_time(self) -> Iterator[None]:
        """Some bookie goes and comes back meanwhile, and never two of them are out at once."""
        bookies = len(self.fleet.status()["bookies"])
        with self.watched(BOOKIE_PODS) as watch:
            yield
        most = out_at_once(watch.versions(), bookies=bookies)
        assert most == 1, f"{most} bookies were out at once, expected 1"

    @contextlib.contextmanager
    def watched(self, selector: str) -> Iterator[Watch]:
        """Pods, seen as they come and go."""
        watch = Watch(self.kube, "pods", "--selector", selector).start()
        try:
            yield watch
        finally:
            watch.stop()

    @contextlib.contextmanager
    def recording(self, file: Path) -> Iterator[None]:
        """`kubectl get bkc -w` as a person sees it, into a file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        command = self.kube.words("get", "bkc", CLUSTER, "--watch")
        with file.open("w", encoding="utf-8") as out:
            process = self.kube.start(command, out)
            try:
                yield
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5.0)


def remove_namespace(kube: Kube, name: str) -> None:
    """Gone when this returns; graces and finalizers of what was in it are cut short."""
    if kube.get("namespace", name) is None:
        return
    inside = kube.within(name)
    for kind in (BKT, BKC):
        if kube.get("crd", kind) is not None:
            inside("delete", kind, "--all", "--wait=false")
            with contextlib.suppress(AssertionError):
                inside("wait", kind, "--all", "--for=delete", f"--timeout={FINALIZERS_S:.0f}s")
            _drop_finalizers(inside, kind)
    kube("delete", "namespace", name, "--wait=false")
    inside("delete", "pods", "--all", "--grace-period=1", "--wait=false")
    wait_for(f"namespace {name} to go", lambda: not kube.get("namespace", name), seconds=GONE_S)


def _drop_finalizers(kube: Kube, kind: str) -> None:
    """Of objects whose operator is not there to let them go."""
    for found in kube.items(kind):
        with contextlib.suppress(AssertionError):
            kube.patch(kind, found["metadata"]["name"], {"metadata": {"finalizers": None}})
