"""`bookie-operator` as people call it: messages and exit codes."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from bookie.ids import BookieId
from bookie_operator.__main__ import main
from bookie_operator.errors import LocalError, ManifestError
from bookie_operator.local.live_view import what_to_decide
from bookie_operator.local.stored import (
    EXAMPLE,
    STALE_AFTER_S,
    manifest_of,
    mark_looked,
    why_not_current,
)
from bookie_operator.local.up import prepare
from bookie_operator.model.bookie_status import BookieStatus, RepairStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.crd import documents
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsStatus
from bookie_operator.model.undecided import UndecidedLedger, UndecidedStatus
from bookie_operator.observed import LeftOver
from bookie_operator.plan.actions import template_of
from bookie_operator.plan.planner import plan
from bookie_operator.platform.credential_folders import replace_folder
from bookie_operator.platform.folders import LocalFolders, operator_lock, write_json
from bookie_operator.platform.kubelet import Record, record_tree
from bookie_operator.platform.processes import identify
from bookie_operator.platform.volumes import create_volume
from click.testing import CliRunner, Result
from fake_processes import stubborn
from operator_scenes import cluster, manifest, observed


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def stored(
    root: Path, left: Mapping[BookieId, LeftOver] | None = None, **spec: object
) -> BookieCluster:
    """A directory in which a cluster was brought up once."""
    folders = LocalFolders(root)
    folders.make()
    before = cluster(**spec)
    seen = replace(observed(), left_over=left or {})
    status = plan(before, seen, ClusterStatus()).status
    whole = before.model_copy(update={"status": status})
    write_json(folders.status_file, whole.as_dict())
    return whole


def test_a_wrong_manifest_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(manifest(replicsa=1)))
    done = run("local", "up", str(path), "--dir", str(tmp_path / "d"))
    assert done.exit_code == 2 and "did you mean replicas?" in done.stderr and not done.stdout
    assert not (tmp_path / "d").exists()


def test_a_port_of_metrics_that_is_in_use_ends_it_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(manifest()))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("local", "up", str(path), "--dir", str(tmp_path / "d"), "--metrics-port", port)
    assert done.exit_code == 1 and "choose another --metrics-port" in done.output
    assert not LocalFolders(tmp_path / "d").zookeeper.exists()


@pytest.mark.parametrize("command", ["status", "watch", "metadata", "env", "wait", "down"])
def test_a_directory_without_a_cluster_is_told(tmp_path: Path, command: str) -> None:
    done = run("local", command, "--dir", str(tmp_path / "d"))
    assert done.exit_code == 1 and "no cluster was ever started" in done.stderr
    assert done.stdout == "" and isinstance(done.exception, SystemExit), "no bug"


def test_nobody_waits_for_no_number_of_seconds(tmp_path: Path) -> None:
    told = run("local", "wait", "--timeout", "nan", "--dir", str(tmp_path))
    assert told.exit_code == 2 and "expected a number of seconds" in told.output


def test_status_without_an_operator_is_the_last_known(tmp_path: Path) -> None:
    whole = stored(tmp_path)
    done = CliRunner().invoke(main, ["local", "status", "--dir", str(tmp_path), "--output", "json"])
    assert done.exit_code == 1 and "no operator runs" in done.stderr
    assert json.loads(done.stdout) == whole.as_dict()


def test_status_of_an_operator_that_does_not_look_is_the_last_known(tmp_path: Path) -> None:
    stored(tmp_path)
    folders = LocalFolders(tmp_path)
    mark_looked(folders, began_s=time.time() - 2 * STALE_AFTER_S)
    with operator_lock(folders):
        done = run("local", "status", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "has not looked at the cluster for 60s" in done.output


def test_status_of_an_operator_that_hangs_since_the_clock_was_set_back_is_the_last_known(
    tmp_path: Path,
) -> None:
    stored(tmp_path)
    folders = LocalFolders(tmp_path)
    mark_looked(folders, began_s=time.time() + 3600)
    with operator_lock(folders):
        done = run("local", "status", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "not looked at the cluster since the clock was" in done.output


def test_a_pass_without_news_makes_the_status_younger(tmp_path: Path) -> None:
    stored(tmp_path)
    folders = LocalFolders(tmp_path)
    mark_looked(folders, began_s=0)
    with operator_lock(folders):
        assert "has not looked" in why_not_current(folders)
        mark_looked(folders, began_s=time.time())
        assert why_not_current(folders) == ""


@pytest.mark.parametrize("command", ["metadata", "env"])
def test_a_store_without_an_address_is_told(tmp_path: Path, command: str) -> None:
    write_json(LocalFolders(tmp_path).status_file, cluster().as_dict())
    done = run("local", command, "--dir", str(tmp_path))
    assert done.exit_code == 1 and "found no address of a metadata store" in done.output


def test_status_as_a_table_names_bookies_and_conditions(tmp_path: Path) -> None:
    stored(tmp_path)
    done = run("local", "status", "--dir", str(tmp_path))
    assert "bookie-3" in done.output and "Available" in done.output


def test_d9_status_as_a_table_lists_what_is_left_over(tmp_path: Path) -> None:
    claims = ("bookie-4.journal", "bookie-4.ledger-0")
    stored(tmp_path, left={BookieId("bookie-4"): LeftOver(claims, has_cookie=True)})
    lines = run("local", "status", "--dir", str(tmp_path)).output.splitlines()
    [line] = [line for line in lines if "bookie-4" in line and "cookie" in line]
    assert line.endswith(f"bookie-4  cookie, 2 claims: bookie-4.journal, {claims[1]}")


def test_in_a_pipe_no_line_of_the_status_is_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    claims = ("bookie-4." + "c" * 60, "bookie-4." + "d" * 60)
    stored(tmp_path, left={BookieId("bookie-4"): LeftOver(claims, has_cookie=True)})
    output = run("local", "status", "--dir", str(tmp_path)).output
    assert f"2 claims: {claims[0]}, {claims[1]}\n" in output


def test_what_a_person_can_decide_is_a_command_to_copy() -> None:
    row = UndecidedLedger(ledger=7, entry=20)
    found = UndecidedStatus(ledgers=1, through=7, first=(row,))
    repair = RepairStatus(episode="bookie-1-2", state="Failed", undecided=found)
    one = BookieStatus(id="bookie-1", state="Limbo", repair=repair)
    told = what_to_decide(ClusterStatus(bookies=(one,)))
    assert "bookie ledger accept-loss 7@20 --dry-run" in told
    assert what_to_decide(ClusterStatus()) == ""


def test_d9_a_fleet_that_nobody_left_has_no_such_section(tmp_path: Path) -> None:
    stored(tmp_path)
    assert "left over" not in run("local", "status", "--dir", str(tmp_path)).output.lower()


def test_the_address_of_the_store_is_told_for_an_export(tmp_path: Path) -> None:
    whole = stored(tmp_path)
    done = run("local", "metadata", "--dir", str(tmp_path))
    assert done.output == f"{whole.status.metadata.url}\n" != "\n"


def test_killing_what_does_not_run_is_an_error(tmp_path: Path) -> None:
    stored(tmp_path)
    done = run("local", "kill", "bookie-7", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "bookie-7 does not run; running bookies: none" in done.output


def test_replacing_an_unknown_disk_is_an_error(tmp_path: Path) -> None:
    stored(tmp_path)
    done = run("local", "replace-disk", "bookie-0", "ledger-9", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "bookie-0 has no disk ledger-9" in done.output


def test_swapping_needs_full_names(tmp_path: Path) -> None:
    stored(tmp_path)
    done = run("local", "swap-disks", "ledger-0", "ledger-1", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "expected BOOKIE.DISK" in done.output


def test_a_task_is_handed_in_once_and_to_its_own_cluster(tmp_path: Path) -> None:
    stored(tmp_path / "d")
    path = tmp_path / "task.yaml"

    def hand_in(cluster_name: str) -> Result:
        tree = {"kind": "BookieTask", "metadata": {"name": "look"}}
        path.write_text(yaml.safe_dump(tree | {"spec": {"cluster": cluster_name, "type": "audit"}}))
        return run("local", "task", str(path), "--dir", str(tmp_path / "d"))

    assert "the task is for other" in hand_in("other").output
    assert hand_in("demo").exit_code == 0
    assert "already" in hand_in("demo").output


def test_crds_are_printed_and_written(tmp_path: Path) -> None:
    assert "kind: CustomResourceDefinition" in run("crds").output
    assert run("crds", "--dir", str(tmp_path)).exit_code == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == documents()


class TestPrepare:
    def test_the_same_spec_keeps_the_generation(self, tmp_path: Path) -> None:
        whole = stored(tmp_path)
        again = prepare(LocalFolders(tmp_path), cluster())
        assert again.metadata.generation == 1 and again.status == whole.status

    def test_another_spec_is_another_generation(self, tmp_path: Path) -> None:
        stored(tmp_path)
        changed = prepare(LocalFolders(tmp_path), cluster(journalWriteData=True))
        assert changed.metadata.generation == 2

    def test_disks_cannot_change(self, tmp_path: Path) -> None:
        stored(tmp_path)
        fewer = cluster(storage={"disks": manifest()["spec"]["storage"]["disks"][:2]})
        with pytest.raises(ManifestError, match="cannot change"):
            prepare(LocalFolders(tmp_path), fewer)

    def test_another_cluster_needs_another_directory(self, tmp_path: Path) -> None:
        stored(tmp_path)
        other = manifest() | {"metadata": {"name": "other"}}
        with pytest.raises(LocalError, match="holds cluster demo, found other"):
            prepare(LocalFolders(tmp_path), BookieCluster.model_validate(other))


@pytest.mark.process
def test_the_module_runs_as_a_command() -> None:
    command = [sys.executable, "-m", "bookie_operator", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "BookieCluster" in done.stdout


def with_tls(root: Path, clients: str) -> None:
    folders = LocalFolders(root)
    before = stored(root)
    metadata = before.status.metadata.model_copy(update={"url": "zk://127.0.0.1:1/a'b"})
    tls = TlsStatus(mode=clients, clients=clients)
    status = before.status.model_copy(update={"tls": tls, "metadata": metadata})
    write_json(folders.status_file, before.model_copy(update={"status": status}).as_dict())


def exported(root: Path) -> list[str]:
    """What a shell has after it: variables of ours, by name."""
    lines = run("local", "env", "--dir", str(root)).output
    done = subprocess.run(
        ["sh", "-c", f"{lines}env"], capture_output=True, text=True, check=True, env={}
    )
    return sorted(line for line in done.stdout.splitlines() if line.startswith("BOOKIE_"))


def test_a_shell_gets_nothing_of_a_cluster_that_has_no_address_yet(tmp_path: Path) -> None:
    write_json(LocalFolders(tmp_path).status_file, manifest())
    done = run("local", "env", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "local wait" in done.output and "export" not in done.output


def test_a_shell_gets_what_reaches_a_plain_cluster(tmp_path: Path) -> None:
    with_tls(tmp_path, "Off")
    assert exported(tmp_path) == ["BOOKIE_METADATA=zk://127.0.0.1:1/a'b"]


@pytest.mark.parametrize(
    ("clients", "more"), [("Accepted", ["BOOKIE_TLS__MODE=Accepted"]), ("Required", [])]
)
def test_a_shell_gets_the_credentials_of_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: str, more: list[str]
) -> None:
    """Of who asks, not of others who once ran the operator here."""
    root = tmp_path / "a fleet"
    with_tls(root, clients)
    for name in ("ann", "bob", "zoe"):
        replace_folder(root / "tls" / f"person-{name}", {"tls.crt": b""})
    monkeypatch.setenv("LOGNAME", "bob")
    [_url, *others] = exported(root)
    assert others == [f"BOOKIE_TLS__DIRECTORY={root}/tls/person-bob", *more]


def test_credentials_that_are_not_there_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_tls(tmp_path, "Required")
    replace_folder(tmp_path / "tls" / "person-ann", {"tls.crt": b""})
    monkeypatch.setenv("LOGNAME", "bob")
    done = run("local", "env", "--dir", str(tmp_path))
    assert done.exit_code == 1 and "expected credentials for bob" in done.output


def test_without_a_manifest_a_directory_keeps_its_own_and_a_new_one_gets_the_example(
    tmp_path: Path,
) -> None:
    folders = LocalFolders(tmp_path)
    assert manifest_of(folders) == EXAMPLE
    folders.cluster_file.write_text("its own")
    assert manifest_of(folders) == folders.cluster_file


def test_the_example_of_the_package_is_the_one_that_people_read() -> None:
    read = Path(__file__).parents[3] / "examples" / "bookiecluster.yaml"
    assert EXAMPLE.read_text(encoding="utf-8") == read.read_text(encoding="utf-8")


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_directory_has_one_operator_however_it_is_started(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(manifest()))
    folders = LocalFolders(tmp_path / "d")
    folders.make()
    with operator_lock(folders):
        done = run("local", "up", str(path), "--dir", str(folders.root), *how)
    assert done.exit_code == 1 and str(folders.root) in done.stderr
    assert isinstance(done.exception, SystemExit), "no bug"


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        ("replace-disk", "bookie-0", "ledger-0"),
        ("wipe-disk", "bookie-0", "ledger-0"),
        ("swap-disks", "bookie-0.ledger-0", "bookie-0.ledger-1"),
    ],
)
def test_a_bookie_whose_disks_are_changed_has_its_grace_period_to_stop(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    stored(tmp_path, grace_period_seconds=1)
    folders, name = LocalFolders(tmp_path), BookieId("bookie-0")
    for disk in ("ledger-0", "ledger-1"):
        create_volume(folders, name, disk, size="1Gi")
    with subprocess.Popen(stubborn(), stdout=subprocess.PIPE) as stays:
        assert stays.stdout is not None and stays.stdout.readline() == b"ready\n"
        record = Record(template_of(cluster().spec, name), identify(stays.pid))
        write_json(folders.bookie(name) / "process.json", record_tree(record))
        done = run("local", *words, "--dir", str(tmp_path))
        was_stopped = stays.poll() is not None
        stays.kill()
    assert done.exit_code == 0 and "no operator runs to start it again" in done.stdout
    assert was_stopped
