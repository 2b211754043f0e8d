"""`bookie-operator local wait`: what counts as whole, and what it says when it is not."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie.ids import BookieId
from bookie_operator.__main__ import main
from bookie_operator.errors import LocalError, ManifestError
from bookie_operator.local import up
from bookie_operator.local.waiting import lacking, wait_whole
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import template_of
from bookie_operator.plan.planner import plan
from bookie_operator.platform.folders import LocalFolders, operator_lock, write_json
from bookie_operator.platform.kubelet import Record, record_tree
from bookie_operator.platform.processes import identify
from click.testing import CliRunner
from fake_processes import pausing
from operator_scenes import at, bookie, cluster, manifest, observed

REACHED_AT = 1000.0
WANTED = {"LimboPresent": "False", "RepairRunning": "False", "DurabilityVerified": "True"}
LONG_AGO = {BookieId(f"bookie-{n}"): 10.0 for n in range(4)}


def told(*odd: object) -> BookieCluster:
    """As the planner tells of four bookies, of which `odd` are not ordinary."""
    before = cluster()
    status = plan(before, observed(*odd), ClusterStatus()).status  # type: ignore[arg-type]
    return before.model_copy(update={"status": status})


def test_a_fleet_that_no_audit_has_seen_lacks_just_that() -> None:
    [missing] = lacking(told(), LONG_AGO, reached_at=REACHED_AT)
    assert missing.startswith("DurabilityVerified")


def test_a_status_of_before_the_restart_is_not_believed() -> None:
    started = LONG_AGO | {BookieId("bookie-1"): REACHED_AT + 1}
    missing = lacking(told(), started, reached_at=REACHED_AT)
    assert "the status is older than the process of bookie-1" in missing


def test_a_bookie_without_a_process_is_not_there_yet() -> None:
    started = {name: at for name, at in LONG_AGO.items() if name != "bookie-2"}
    missing = lacking(told(), started, reached_at=REACHED_AT)
    assert "the status is older than the process of bookie-2" in missing


def test_limbo_is_waited_for() -> None:
    missing = lacking(told(bookie("bookie-1", limbo=3)), LONG_AGO, reached_at=REACHED_AT)
    assert "bookie-1 is Limbo" in missing
    assert any(one.startswith("LimboPresent True") for one in missing)


def test_without_an_operator_nobody_is_waited_for(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    write_json(folders.status_file, told().as_dict())
    done = CliRunner().invoke(main, ["local", "wait", "--dir", str(tmp_path)])
    assert done.exit_code == 1 and "no operator runs for" in done.output


def test_the_command_that_it_names_is_for_this_fleet_and_fit_for_a_shell(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path / "my fleet")
    folders.make()
    write_json(folders.status_file, told().as_dict())
    done = CliRunner().invoke(main, ["local", "wait", "--dir", str(folders.root)])
    assert f"`bookie-operator local up --dir '{folders.root}'`" in done.output


def test_who_stops_waiting_hears_that_the_operator_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = pausing()
    waiting = up._until_available(LocalFolders(tmp_path), operator)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(waiting, 0.01))
    os.kill(operator.pid, signal.SIGKILL)
    os.waitpid(operator.pid, 0)
    assert f"(process {operator.pid}) keeps running" in capsys.readouterr().err


WHOLE = told().status.model_copy(
    update={
        "observed_generation": 1,
        "conditions": tuple(
            Condition.model_validate(
                {"type": kind, "status": word, "reason": "Why", "lastTransitionTime": at(0)}
            )
            for kind, word in WANTED.items()
        ),
    }
)
"""Nothing is lacking."""


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({}, ""),
        ({"observed_generation": 0}, "the status is about an earlier manifest"),
        ({"observed_generation": 2}, "the status is about an earlier manifest"),
        ({"bookies": WHOLE.bookies[:3]}, "3 of 4 bookies exist"),
        *(
            ({part: getattr(WHOLE, part).model_copy(update={"running": True})}, "an audit runs")
            for part in ("audit", "mend", "scrub", "rereplication")
        ),
    ],
)
def test_one_thing_that_is_lacking_is_enough(facts: dict[str, Any], word: str) -> None:
    status = WHOLE.model_copy(update=facts)
    of = cluster().model_copy(update={"status": status})
    missing = lacking(of, LONG_AGO, reached_at=REACHED_AT)
    assert len(missing) == bool(word) and word in "".join(missing)


@pytest.mark.parametrize(
    "age_s", [5.0, 86400.0, -3600.0], ids=["a moment ago", "past", "clock set back"]
)
def test_detached_the_status_of_an_operator_before_is_not_waited_for(
    tmp_path: Path, age_s: float
) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    write_json(folders.status_file, told().as_dict())
    moment = time.time() - age_s
    os.utime(folders.status_file, (moment, moment))
    with operator_lock(folders):
        assert up._ready(folders, os.getpid()) is None
        write_json(folders.status_file, told().as_dict())
        assert up._ready(folders, os.getpid()) is not None


@pytest.mark.parametrize("kind", WANTED)
@pytest.mark.parametrize("word", [None, "True", "False", "Unknown"])
def test_of_a_condition_only_the_wanted_word_is_enough(kind: str, word: str | None) -> None:
    of, facts = told(), {"reason": "Why", "last_transition_time": at(0)}
    said = () if word is None else (Condition(type=kind, status=word, **facts),)
    status = of.status.model_copy(update={"conditions": said})
    whole = of.model_copy(update={"status": status})
    missing = lacking(whole, LONG_AGO, reached_at=REACHED_AT)
    assert any(one.startswith(kind) for one in missing) is (word != WANTED[kind])


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    """Of a fleet whose bookies run: this process stands for each."""
    folders = LocalFolders(tmp_path)
    folders.make()
    for name in LONG_AGO:
        record = Record(template_of(cluster().spec, name), identify(os.getpid()))
        write_json(folders.bookie(name) / "process.json", record_tree(record))
    return folders


def publish(folders: LocalFolders, status: ClusterStatus) -> None:
    write_json(folders.status_file, cluster().model_copy(update={"status": status}).as_dict())


def test_a_fleet_that_is_whole_is_waited_for_no_longer(folders: LocalFolders) -> None:
    publish(folders, WHOLE)
    assert 0 <= wait_whole(folders, timeout_s=0) < 60


def test_who_has_no_more_time_hears_what_is_lacking_and_how_long_it_took(
    folders: LocalFolders,
) -> None:
    publish(folders, told().status)
    with operator_lock(folders), pytest.raises(LocalError) as error:
        wait_whole(folders, timeout_s=0)
    assert str(error.value).startswith("not whole after 0 s: DurabilityVerified ")


def test_detached_a_wrong_manifest_is_told_before_anything_starts(tmp_path: Path) -> None:
    folders, path = LocalFolders(tmp_path / "d"), tmp_path / "x.yaml"
    path.write_text("kind: Other\n")
    with pytest.raises(ManifestError, match="found Other; expected exactly one BookieCluster"):
        up.up_detached(folders, path, command=lambda: pytest.fail("it was started"))
    assert not folders.root.exists()


def test_detached_an_operator_that_ends_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    folders, path = LocalFolders(tmp_path / "d"), tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(manifest()))
    program = f"for n in range({up.LOG_TAIL_LINES + 1}): print(n)\nraise SystemExit(7)"
    with pytest.raises(LocalError) as error:
        up.up_detached(folders, path, command=lambda: [sys.executable, "-c", program])
    first, *tail = str(error.value).splitlines()
    assert first == "the operator ended with exit code 7:"
    assert tail == [str(number) for number in range(1, up.LOG_TAIL_LINES + 1)]


@pytest.mark.parametrize("reason", ["BookieDown", *sorted(up.HOPELESS)])
def test_detached_nobody_waits_for_what_does_not_pass(folders: LocalFolders, reason: str) -> None:
    facts = {"status": "True", "reason": reason, "message": "why", "lastTransitionTime": at(0)}
    broken = (Condition.model_validate(facts | {"type": "Degraded"}),)
    with operator_lock(folders):
        publish(folders, WHOLE.model_copy(update={"conditions": broken}))
        if reason == "BookieDown":
            assert up._ready(folders, os.getpid()) is None
        else:
            with pytest.raises(LocalError, match=f"^{reason}: why; see "):
                up._ready(folders, os.getpid())
