"""The local platform as a whole: bookies that leave, and events that are told once."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role
from bookie_operator.errors import PreconditionError
from bookie_operator.local.down import running_bookies
from bookie_operator.model.manifest import load_task
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import TaskPhase, TaskStatus
from bookie_operator.model.tls import TlsStatus
from bookie_operator.observed import JobKind, Process
from bookie_operator.plan.actions import (
    Event,
    IssueCertificate,
    MakeAuthority,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
    template_of,
)
from bookie_operator.plan.decisions import decision_job
from bookie_operator.platform import folders
from bookie_operator.platform.credential_folders import replace_folder
from bookie_operator.platform.folders import LocalFolders, write_json
from bookie_operator.platform.job_facts import facts_of, started_job
from bookie_operator.platform.kubelet import Record, record_tree
from bookie_operator.platform.local import REPEAT_AFTER_S, LocalPlatform
from bookie_operator.platform.local_credentials import LocalCredentials
from bookie_operator.platform.processes import identify, stop
from bookie_operator.platform.task_files import store_task
from bookie_operator.platform.volumes import create_volume
from fake_processes import PATIENCE_S, bookie_like, endless, pausing
from operator_scenes import T0, cluster
from virtual_time import clock, in_virtual_time

pytestmark = pytest.mark.process
B0 = BookieId("bookie-0")
BACK = """
apiVersion: bookkeeper.bookie-operator.dev/v1alpha1
kind: BookieTask
metadata: {name: back}
spec: {cluster: demo, type: retract-loss, ledger: 5, reason: wrong, approvedBy: ann}
"""
JOB_IN_0_1_0 = "demo-retract-73c5b419058c"
"""As release 0.1.0 names the job of BACK."""
LOOK = """
apiVersion: bookkeeper.bookie-operator.dev/v1alpha1
kind: BookieTask
metadata: {name: look}
spec: {cluster: demo, type: audit}
"""
REBUILD = StartJob("j", JobKind.INDEX_REBUILD, "", 1, bookie_id=B0, disks=("ledger-0",))
LATER = cluster(metadata={"connect": "zk://127.0.0.1:1/ledgers"})


def platform_of(folder: Path) -> LocalPlatform:
    platform = LocalPlatform(LocalFolders(folder), grace_s=10, bookie=bookie_like)
    platform.adopt()
    return platform


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[LocalPlatform]:
    platform = platform_of(tmp_path)
    await platform.metadata_url(LATER)
    yield platform
    await platform.close()


async def start(platform: LocalPlatform) -> Process:
    template = template_of(LATER.spec, B0)
    for disk in template.disks:
        await platform.create_volume(B0, disk)
    await platform.start_bookie(template)
    process = (await platform.bookies())[B0].process
    assert process is not None
    return process


class SlowDisk:
    """Where a bookie's command line is made when the test lets it, in the midst of its start."""

    def __init__(self) -> None:
        self.began, self.may_go_on = threading.Event(), threading.Event()
        self.starts = 0

    def command(self, settings: Path) -> list[str]:
        self.starts += 1
        self.began.set()
        assert self.may_go_on.wait(PATIENCE_S), "the event loop waits for this disk"
        return bookie_like(settings)


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[tuple[SlowDisk, LocalPlatform, asyncio.Task[bool]]]:
    """A bookie is being started."""
    disk = SlowDisk()
    platform = LocalPlatform(LocalFolders(tmp_path), grace_s=10, bookie=disk.command)
    platform.adopt()
    await platform.metadata_url(LATER)
    template = template_of(LATER.spec, B0)
    for one in template.disks:
        await platform.create_volume(B0, one)
    starting = asyncio.create_task(platform.start_bookie(template))
    await asyncio.to_thread(disk.began.wait)
    yield disk, platform, starting
    for process in running_bookies(LocalFolders(tmp_path)).values():
        stop(process, grace_s=10)


async def test_two_calls_at_once_start_one_process(
    slow: tuple[SlowDisk, LocalPlatform, asyncio.Task[bool]],
) -> None:
    disk, platform, starting = slow
    looking = asyncio.create_task(platform.bookies())
    await asyncio.wait([looking], timeout=0)
    disk.may_go_on.set()
    process = (await looking)[B0].process
    assert starting.done() and disk.starts == 1
    assert process is not None and process.running
    await remove(platform, delete_volumes=True)
    await platform.close()


async def test_what_was_planned_for_another_process_is_done_to_none(
    platform: LocalPlatform,
) -> None:
    running, template = await start(platform), template_of(LATER.spec, B0)
    gone = f"{running.instance}1"
    volumes = (await platform.bookies())[B0].volumes
    uids = tuple((disk, one.uid) for disk, one in volumes.items())
    for keeps in (True, False):
        with pytest.raises(PreconditionError, match=f"planned for {gone}"):
            await platform.restart_bookie(template, instance=gone, keeps_settings=keeps)
    with pytest.raises(PreconditionError, match=f"planned for {gone}"):
        await platform.replace_bookie(ReplaceBookie(B0, uids, gone, is_node_lost=False))
    with pytest.raises(PreconditionError, match=f"planned for {gone}"):
        await platform.remove_bookie(RemoveBookie(B0, gone, delete_volumes=True))
    after = (await platform.bookies())[B0]
    assert after.process is not None and after.process.instance == running.instance
    assert after.volumes == volumes
    await remove(platform, delete_volumes=True)


async def test_an_operator_leaves_when_a_start_of_a_cancelled_pass_is_on_record(
    slow: tuple[SlowDisk, LocalPlatform, asyncio.Task[bool]], tmp_path: Path
) -> None:
    disk, platform, starting = slow
    starting.cancel()
    leaving = asyncio.create_task(platform.close())
    await asyncio.wait([starting], timeout=PATIENCE_S)
    assert starting.cancelled() and not leaving.done()
    disk.may_go_on.set()
    await leaving
    assert list(running_bookies(LocalFolders(tmp_path))) == [B0]


async def test_one_that_is_held_back_keeps_the_settings_on_record(
    platform: LocalPlatform,
) -> None:
    before = await start(platform)
    new = template_of(LATER.spec.model_copy(update={"restarted_at": "now"}), B0)
    assert not await platform.start_bookie(new, keeps_settings=True)
    assert (await platform.bookies())[B0].process == before
    assert await platform.restart_bookie(new, instance=before.instance, keeps_settings=True)
    after = (await platform.bookies())[B0].process
    while after is None or after.instance in ("", before.instance):
        await platform.wait(0.1)
        after = (await platform.bookies())[B0].process
    assert after.revision == before.revision != new.revision
    await remove(platform, delete_volumes=True)


@contextmanager
def busy(platform: LocalPlatform, folder: Path, patches: pytest.MonkeyPatch) -> Iterator[None]:
    """Another has the bookie, and nobody has the patience to wait for that."""
    lock = LocalFolders(folder).bookie(B0) / "lock"
    with patches.context() as hurry, folders.held(lock):
        hurry.setattr(folders, "BOOKIE_LOCK_WAIT_S", 0.0)
        hurry.setattr(platform, "grace_s", 0.0)
        yield


async def remove(platform: LocalPlatform, *, delete_volumes: bool) -> None:
    """As the planner does: again and again, until it is not there."""
    process = await start(platform)
    while B0 in await platform.bookies():
        await platform.remove_bookie(RemoveBookie(B0, process.instance, delete_volumes))
        await platform.wait(0.1)


async def test_a_bookie_that_leaves_leaves_its_volumes(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    await remove(platform, delete_volumes=False)
    assert len(list(LocalFolders(tmp_path).claims.iterdir())) == 3
    await start(platform)
    assert len((await platform.bookies())[B0].volumes) == 3
    await remove(platform, delete_volumes=False)


async def test_d9_volumes_that_were_kept_are_told_with_their_bookie(
    platform: LocalPlatform,
) -> None:
    await start(platform)
    assert await platform.kept_claims() == {}, "it has not left"
    await remove(platform, delete_volumes=False)
    claims = ("bookie-0.journal", "bookie-0.ledger-0", "bookie-0.ledger-1")
    assert await platform.kept_claims() == {B0: claims}


async def test_its_volumes_go_when_asked_for(platform: LocalPlatform, tmp_path: Path) -> None:
    await remove(platform, delete_volumes=True)
    assert not list(LocalFolders(tmp_path).claims.iterdir())


async def test_all_volumes_of_a_bookie_are_given_up_at_once(platform: LocalPlatform) -> None:
    process = await start(platform)
    volumes = (await platform.bookies())[B0].volumes
    old = tuple((name, one.uid) for name, one in volumes.items())
    action = ReplaceBookie(B0, old, process.instance, is_node_lost=False)
    with pytest.raises(PreconditionError, match="planned for other"):
        await platform.replace_bookie(replace(action, instance="other"))
    await platform.replace_bookie(action)
    while (await platform.bookies())[B0].volumes:
        await platform.wait(0.1)
    assert await platform.kept_claims() == {}


async def test_another_process_than_planned_for_stays(platform: LocalPlatform) -> None:
    await start(platform)
    with pytest.raises(PreconditionError, match="planned for other"):
        await platform.remove_bookie(RemoveBookie(B0, "other", delete_volumes=False))
    await remove(platform, delete_volumes=True)


async def test_an_event_with_a_key_is_told_once_for_all_operators(tmp_path: Path) -> None:
    for _ in range(2):
        platform = platform_of(tmp_path)
        for epoch in (2, 3):
            event = Event("UncleanShutdown", "boot found", B0, once=f"bookie-0/{epoch}/Unclean")
            await platform.record(event)
            await platform.record(event)
        await platform.close()
    assert [told["once"] for told in LocalFolders(tmp_path).events()] == [
        "bookie-0/2/Unclean",
        "bookie-0/3/Unclean",
    ]


async def test_an_event_is_told_again_after_a_minute_and_no_earlier(
    platform: LocalPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, event = asyncio.get_running_loop(), Event("Waits", "for a disk", B0)
    now, told = loop.time(), []
    for after_s in (0.0, REPEAT_AFTER_S - 1, REPEAT_AFTER_S, REPEAT_AFTER_S + 1):
        with monkeypatch.context() as later:
            later.setattr(loop, "time", lambda at=now + after_s: at)
            await platform.record(event)
        told.append(len(list(LocalFolders(tmp_path).events())))
    assert told == [1, 1, 2, 2]


@in_virtual_time
async def test_who_waits_does_so_until_something_happens_or_the_time_is_over() -> None:
    platform = LocalPlatform(LocalFolders(Path("nowhere")), grace_s=1)
    for wakes_after_s, took_s in ((None, 15.0), (5.0, 5.0), (None, 15.0)):
        began = clock()
        if wakes_after_s is not None:
            asyncio.get_running_loop().call_later(wakes_after_s, platform._woken.set)
        await platform.wait(15.0)
        assert clock() - began == took_s


async def test_a_replacement_under_way_is_not_begun_again(platform: LocalPlatform) -> None:
    await start(platform)
    old = (await platform.bookies())[B0].volumes["ledger-0"].uid
    assert await platform.replace_volume(B0, "ledger-0", uid=old)
    assert not await platform.replace_volume(B0, "ledger-0", uid=old)
    while "ledger-0" in (await platform.bookies())[B0].volumes:
        await platform.wait(0.1)
    await remove(platform, delete_volumes=True)


async def test_a_job_that_is_stopped_ends(tmp_path: Path) -> None:
    platform = LocalPlatform(LocalFolders(tmp_path), grace_s=1, engine=endless)
    platform.adopt()
    await platform.metadata_url(LATER)
    await platform.start_job(StartJob("j", JobKind.AUDIT, "inline", 1))
    assert [job.running for job in await platform.jobs()] == [True]
    await platform.stop_job("j")
    async with asyncio.timeout(PATIENCE_S):
        while (await platform.jobs())[0].running:
            await platform.wait(0.1)
    await platform.close()


async def test_volumes_grow(platform: LocalPlatform) -> None:
    await start(platform)
    bigger = replace(template_of(LATER.spec, B0).disks[0], size="20Gi")
    assert await platform.expand_volume(B0, bigger)
    assert not await platform.expand_volume(B0, bigger)
    assert (await platform.bookies())[B0].volumes[bigger.name].size == "20Gi"
    await remove(platform, delete_volumes=True)


async def rebuild(platform: LocalPlatform, before: Process) -> None:
    """To its end, and until the bookie runs again."""
    while not await platform.start_job(REBUILD):
        await platform.wait(0.1)
    assert not await platform.start_job(REBUILD), "only once"
    while not await platform.jobs():
        await platform.wait(0.1)
    process = (await platform.bookies())[B0].process
    assert process is not None and not process.running
    while not process.running:
        [job] = await platform.jobs()
        await platform.wait(0.1)
        process = (await platform.bookies())[B0].process
        assert process is not None
    assert process.instance != before.instance and not job.running
    assert process.last_exit is not None and process.last_exit.is_planned
    assert "is no ledger directory" in job.message, "the bookie of this test stores nothing"


async def test_d5_a_bookie_is_away_while_its_index_is_built_anew(platform: LocalPlatform) -> None:
    await rebuild(platform, await start(platform))
    await remove(platform, delete_volumes=True)


async def failed_once(platform: LocalPlatform, folder: Path, before: Process) -> None:
    """It is told, and the bookie runs on."""
    while not (events := list(LocalFolders(folder).events())):
        await platform.wait(0.1)
    assert [event["reason"] for event in events] == ["ActionFailed"]
    assert "held by another process" in events[0]["message"]
    process = (await platform.bookies())[B0].process
    assert process is not None and process.running and process.instance == before.instance


async def started_again(platform: LocalPlatform, before: Process) -> None:
    os.kill(int(before.instance.partition("-")[0]), signal.SIGKILL)
    process: Process | None = before
    while process is None or process.instance in ("", before.instance):
        await platform.wait(0.1)
        process = (await platform.bookies())[B0].process


async def test_a_bookie_that_another_holds_for_too_long_is_kept_until_it_is_tried_again(
    platform: LocalPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await start(platform)
    with busy(platform, tmp_path, monkeypatch):
        assert await platform.remove_bookie(RemoveBookie(B0, before.instance, delete_volumes=True))
        await failed_once(platform, tmp_path, before)
    await started_again(platform, before)
    await remove(platform, delete_volumes=True)


async def test_an_index_whose_bookie_another_holds_for_too_long_is_built_when_tried_again(
    platform: LocalPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await start(platform)
    with busy(platform, tmp_path, monkeypatch):
        assert await platform.start_job(REBUILD)
        await failed_once(platform, tmp_path, before)
    await rebuild(platform, before)
    await remove(platform, delete_volumes=True)


async def test_a_task_goes_beside_one_that_cannot_be_read(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    folder = LocalFolders(tmp_path).tasks
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.yaml").write_text("spec: [")
    (folder / "b.yaml").write_text(LOOK)
    await platform.delete_task("look", uid="")
    assert [path.name for path in folder.glob("*.yaml")] == ["a.yaml"]


@pytest.mark.parametrize("broken", ["", '{"phase": "Succ', "[]", '{"phase": "Unheard"}'])
async def test_a_task_whose_status_cannot_be_read_is_told_and_holds_up_no_other(
    platform: LocalPlatform, tmp_path: Path, broken: str
) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    for name in ("done", "look"):
        (folders.tasks / f"{name}.yaml").write_text(LOOK.replace("look", name))
    (folders.tasks / "done.status.json").write_text(broken)
    named = [task.metadata.name for task in await platform.tasks()]
    told = [event["message"] for event in folders.events()]
    assert named == ["look"] and len(told) == 1 and "nobody knows how far task done is" in told[0]


async def test_a_task_with_the_name_of_one_that_was_deleted_begins_anew(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    folder = LocalFolders(tmp_path).tasks
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "look.yaml").write_text(LOOK)
    [task] = await platform.tasks()
    ended = TaskStatus(phase=TaskPhase.SUCCEEDED)
    await platform.publish_task(task.model_copy(update={"status": ended}))
    await platform.delete_task("look", uid="")
    (folder / "look.yaml").write_text(LOOK)
    assert [task.status.phase for task in await platform.tasks()] == [TaskPhase.PENDING]


async def test_a_task_that_is_handed_in_again_has_no_status_of_one_whose_file_was_deleted(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    """As a person does it, who is told to: the status lies there still."""
    folders, asked = LocalFolders(tmp_path), tmp_path / "asked.yaml"
    folders.make()
    asked.write_text(LOOK)
    file = store_task(folders, load_task(asked))
    [task] = await platform.tasks()
    ended = TaskStatus(phase=TaskPhase.SUCCEEDED)
    await platform.publish_task(task.model_copy(update={"status": ended}))
    file.unlink()
    store_task(folders, load_task(asked))
    assert [task.status.phase for task in await platform.tasks()] == [TaskPhase.PENDING]


async def test_a_task_of_a_name_that_was_used_before_has_jobs_of_its_own(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    folders, asked = LocalFolders(tmp_path), tmp_path / "asked.yaml"
    folders.make()
    asked.write_text(BACK)
    store_task(folders, load_task(asked))
    [first] = await platform.tasks()
    await platform.delete_task("back", uid=first.metadata.uid)
    store_task(folders, load_task(asked))
    with pytest.raises(PreconditionError, match="another one by now"):
        await platform.publish_task(first)
    await platform.delete_task("back", uid=first.metadata.uid)
    [second] = await platform.tasks()
    assert decision_job(first) != decision_job(second)


async def test_a_task_that_release_0_1_0_took_keeps_the_name_of_its_job(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    folders = LocalFolders(tmp_path)
    folders.make()
    (folders.tasks / "back.yaml").write_text(BACK)
    [task] = await platform.tasks()
    assert (task.metadata.uid, decision_job(task)) == ("", JOB_IN_0_1_0)


def test_a_task_is_stored_with_no_field_that_nobody_has_written(tmp_path: Path) -> None:
    folders, asked = LocalFolders(tmp_path), tmp_path / "asked.yaml"
    asked.write_text(BACK + "status: {phase: Succeeded}\n")
    stored = yaml.safe_load(store_task(folders, load_task(asked)).read_text())
    assert stored["metadata"].pop("uid")
    assert stored == yaml.safe_load(BACK)


# Certificates


async def test_everybody_of_a_fleet_has_the_credentials_that_are_asked_for(tmp_path: Path) -> None:
    own, day = cluster(metadata={"embedded": {}}), timedelta(days=1)
    credentials = LocalCredentials(tmp_path, lambda: T0)
    with pytest.raises(PreconditionError, match="nobody has looked"):
        await credentials.carry_out(MakeAuthority(day, frozenset(), signs=True))
    holders = list((await credentials.view(own, [B0], [])).hosts)
    await credentials.carry_out(MakeAuthority(day, frozenset(), signs=True))
    signing = (await credentials.view(own, [B0], [])).authorities.signing
    assert signing is not None
    for holder in holders:
        assert (credentials.operator, credentials.zookeeper) == tuple(
            tmp_path / name if (tmp_path / name).is_dir() else None
            for name in ("operator-operator", "zookeeper-zookeeper")
        )
        issue = IssueCertificate(holder, (), day, signing.fingerprint, "new")
        await credentials.carry_out(issue)
    view = await credentials.view(own, [B0], [])
    assert {one.principal for one in view.certificates.values()} == set(holders)
    assert {one.role for one in holders} > {Role.BOOKIE, Role.ZOOKEEPER, Role.PERSON}
    assert credentials.zookeeper == tmp_path / "zookeeper-zookeeper"


@pytest.mark.parametrize("issuer", [None, {"name": "corporate"}])
async def test_an_issuer_is_none_that_this_platform_has(tmp_path: Path, issuer: object) -> None:
    own = cluster(tls={"mode": "Required"} | ({"issuer": issuer} if issuer else {}))
    found = (await LocalCredentials(tmp_path, lambda: T0).view(own, [B0], [])).issuer
    assert (found is not None) is bool(issuer)
    assert found is None or (not found.is_there and "leave out tls.issuer" in found.trouble)


SHOWS = (
    "import os, sys; open(sys.argv[1], 'w').write(os.environ.get('BOOKIE_TLS__DIRECTORY', 'none'))"
)


async def told_of_credentials(folder: Path, clients: str, *, shows: Principal | None = None) -> str:
    """What a job that is started now finds in its environment."""
    result = folder / "told"
    platform = LocalPlatform(
        LocalFolders(folder),
        grace_s=1,
        engine=lambda _job, _url, _result: [sys.executable, "-c", SHOWS, str(result)],
    )
    platform.adopt()
    await platform.metadata_url(LATER)
    await platform.certificates(LATER, [B0])
    await platform.settle(LATER, ClusterStatus(tls=TlsStatus(clients=clients)))
    await platform.start_job(StartJob("j", JobKind.AUDIT, "inline", 1, shows=shows))
    async with asyncio.timeout(PATIENCE_S):
        while any(job.running for job in await platform.jobs()):
            await platform.wait(0.1)
    await platform.close()
    return result.read_text()


@pytest.mark.parametrize("clients", ["Off", "Accepted", "Required"])
async def test_a_job_has_credentials_where_bookies_ask_for_them(
    tmp_path: Path, clients: str
) -> None:
    mine = tmp_path / "tls" / "job-job"
    replace_folder(mine, {})
    found = await told_of_credentials(tmp_path, clients)
    assert found == ("none" if clients == "Off" else str(mine))


async def test_the_job_of_a_decision_has_those_of_who_decides(tmp_path: Path) -> None:
    replace_folder(tmp_path / "tls" / "job-job", {})
    ann = Principal("local", "demo", Role.PERSON, "ann")
    found = await told_of_credentials(tmp_path, "Required", shows=ann)
    assert found == str(tmp_path / "tls" / "person-ann")


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that works at a job of a former operator's."""
    child = pausing()
    yield child
    child.kill()
    child.wait()


def adopted(
    tmp_path: Path, worker: "subprocess.Popen[bytes]", of: StartJob, *, has_ended: bool = False
) -> LocalPlatform:
    """By the next operator: a bookie that does not run, and a job."""
    before = LocalFolders(tmp_path)
    before.make()
    template = template_of(LATER.spec, B0)
    for disk in template.disks:
        create_volume(before, B0, disk.name, size=disk.size)
    write_json(before.bookie(B0) / "process.json", record_tree(Record(template)))
    process = identify(worker.pid)
    assert process is not None
    facts = facts_of(started_job(of, at=T0)) | {"process": process.as_dict()}
    more = {"name": of.name, "endedAt": T0.isoformat() if has_ended else None, "exitCode": None}
    write_json(before.jobs / of.name / "job.json", facts | more)
    return platform_of(tmp_path)


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("kind", [JobKind.INDEX_REBUILD, JobKind.REPAIR, JobKind.DRAIN])
async def test_of_all_jobs_only_a_rebuild_that_runs_keeps_its_bookie_away_from_the_next_operator(
    tmp_path: Path, worker: "subprocess.Popen[bytes]", kind: JobKind, has_ended: bool
) -> None:
    platform = adopted(tmp_path, worker, replace(REBUILD, kind=kind), has_ended=has_ended)
    await platform.metadata_url(LATER)
    found = (await platform.bookies())[B0].process
    is_away = kind is JobKind.INDEX_REBUILD and not has_ended
    assert found is not None and found.running is not is_away
    if found.running:
        await remove(platform, delete_volumes=True)
    await platform.close()


async def test_the_next_operator_keeps_a_bookie_away_whose_index_is_being_built_anew(
    tmp_path: Path, worker: "subprocess.Popen[bytes]"
) -> None:
    platform = adopted(tmp_path, worker, REBUILD)
    await platform.metadata_url(LATER)
    for is_over in (False, False, True):
        if is_over:
            worker.kill()
            worker.wait()
        [job] = await platform.jobs()
        found = (await platform.bookies())[B0].process
        assert found is not None and (job.running, found.running) == (not is_over, is_over)
    await remove(platform, delete_volumes=True)
    await platform.close()


async def test_a_bookie_whose_index_is_built_once_more_is_away_once_more(
    platform: LocalPlatform,
) -> None:
    await rebuild(platform, await start(platform))
    again, running = replace(REBUILD, name="k"), True
    assert await platform.start_job(again)
    while "k" not in (jobs := {job.name: job for job in await platform.jobs()}):
        await platform.wait(0.1)
    while running:
        process = (await platform.bookies())[B0].process
        assert process is not None and not (process.running and jobs["k"].running)
        running = jobs["k"].running
        jobs = {job.name: job for job in await platform.jobs()}
    await remove(platform, delete_volumes=True)
