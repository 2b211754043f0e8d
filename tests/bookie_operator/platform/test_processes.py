"""Processes: identity beyond the pid, graceful stops, exits that wake the loop."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bookie_operator.platform.processes import (
    Children,
    ProcessId,
    exit_reason,
    identify,
    is_alive,
    own_environment,
    send,
    stop,
    wait_gone,
)
from fake_processes import stubborn

pytestmark = pytest.mark.process


def test_another_process_with_the_same_pid_is_another_process() -> None:
    me = identify(os.getpid())
    assert me is not None and is_alive(me)
    former = replace(me, created=me.created - 100, start="")
    assert not is_alive(former)
    assert not send(former, signal.SIGKILL)


def test_a_process_is_known_again_however_far_the_clock_was_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    me = identify(os.getpid())
    assert me is not None and ProcessId.of(me.as_dict()) == me
    told = psutil.boot_time() - 3 * 3600  # as the kernel does after the clock was set back
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: told)
    again = identify(os.getpid())
    assert again is not None and again.created < me.created - 3600 and is_alive(me)


def test_the_same_number_in_another_boot_of_the_machine_is_another_process() -> None:
    me = identify(os.getpid())
    assert me is not None and not is_alive(replace(me, start=f"another {me.start.split()[1]}"))


def test_a_record_of_an_earlier_version_is_judged_by_its_time() -> None:
    me = identify(os.getpid())
    assert me is not None and is_alive(ProcessId.of({"pid": me.pid, "created": me.created + 1}))


def test_for_one_whose_pid_another_has_by_now_nobody_waits_and_nobody_is_stopped() -> None:
    former = ProcessId(os.getpid(), created=1.0)
    assert wait_gone(former, 0) and stop(former, grace_s=0)
    assert not send(former, signal.SIGKILL)


def test_a_process_that_was_never_there_is_not_alive() -> None:
    assert not is_alive(ProcessId(2**22 - 1, 1.0))


def test_a_graceful_stop_is_told_from_a_killed_one() -> None:
    polite = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    process = identify(polite.pid)
    assert process is not None and stop(process, grace_s=20)
    polite.wait()
    rude = subprocess.Popen(stubborn(), stdout=subprocess.PIPE)
    with rude:
        assert rude.stdout is not None and rude.stdout.readline() == b"ready\n"
        process = identify(rude.pid)
        assert process is not None and not stop(process, grace_s=0.05)
        assert rude.wait() == -signal.SIGKILL


async def test_an_exit_wakes_the_loop_and_has_a_code(tmp_path: Path) -> None:
    woken = asyncio.Event()
    children = Children(woken.set)
    process = children.spawn(
        [sys.executable, "-c", "raise SystemExit(7)"], log=tmp_path / "log", folder=tmp_path
    )
    async with asyncio.timeout(20):
        await woken.wait()
    assert not children.is_alive(process)
    assert children.exit_code(process) == 7
    children.forget(process)
    children.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (-9, "killed by SIGKILL"), (None, "ended, its exit code is not known")],
)
def test_ends_are_told_in_words(code: int | None, text: str) -> None:
    assert exit_reason(code) == text


async def test_what_a_person_exported_reaches_no_bookie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKIE_METADATA", "zk://another:2181/fleet")
    monkeypatch.setenv("OTHER", "kept")
    woken = asyncio.Event()
    script = "import os; print(os.environ.get('BOOKIE_METADATA'), os.environ['OTHER'])"
    log = tmp_path / "log"
    children = Children(woken.set)
    process = children.spawn([sys.executable, "-c", script], log=log, folder=tmp_path)
    async with asyncio.timeout(20):
        await woken.wait()
    assert children.exit_code(process) == 0
    assert log.read_text() == "None kept\n"


def test_no_setting_of_a_bookie_that_a_person_has_exported_reaches_one() -> None:
    theirs = dict.fromkeys(("BOOKIE_METADATA", "BOOKIE_TLS__MODE", "BOOKIE_PORTS__RUN"), "x")
    ours = {"PATH": "/bin", "HOME": "/", "A_BOOKIE_OF_MINE": "x", "bookie_x": "x"}
    assert own_environment({**theirs, **ours}) == ours
