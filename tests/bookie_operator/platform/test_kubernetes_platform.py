"""The Kubernetes platform over a fake API server: every action, and what it refuses."""

from dataclasses import replace

import pytest
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import TaskPhase, TaskStatus
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import RemoveBookie, ReplaceBookie
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    EVENT,
    JOB,
    NODE,
    POD,
    SERVICE,
    STATEFUL_SET,
    TASK,
    Kind,
    RefusedError,
)
from bookie_operator.platform.kubernetes.jobs import JOBS_MAX
from fake_controllers import NODE_NAME
from kubernetes_lab import B0, POD_0, Lab, repair_job

SET_0 = "demo-bookie-0"
LEDGER_0 = "demo-bookie-0-ledger-0"
B1 = BookieId("bookie-1")


@pytest.fixture
def lab() -> Lab:
    return Lab()


def replicas(lab: Lab) -> int:
    found: int = lab.api.the(STATEFUL_SET, SET_0)["spec"]["replicas"]
    return found


def uid_of(lab: Lab, claim: str = LEDGER_0) -> str:
    return str(lab.api.the(CLAIM, claim)["metadata"]["uid"])


# Volumes


async def test_a_new_bookies_volumes_are_made_at_once(lab: Lab) -> None:
    assert await lab.make_volumes() == [True, True, True]
    found = await lab.bookie()
    assert sorted(found.volumes) == ["journal", "ledger-0", "ledger-1"]
    assert found.process is None


async def test_a_volume_is_made_once(lab: Lab) -> None:
    await lab.make_volumes()
    before = uid_of(lab)
    await lab.make_volumes()
    assert uid_of(lab) == before


async def test_volumes_belong_to_nobody_who_could_go(lab: Lab) -> None:
    await lab.make_volumes()
    assert all("ownerReferences" not in one["metadata"] for one in lab.api.all(CLAIM))


async def test_no_volume_is_made_while_a_pod_may_come_up(lab: Lab) -> None:
    await lab.run_bookie()
    lab.api.remove(CLAIM, LEDGER_0)
    disk = lab.template().disks[1]
    assert not await lab.platform.create_volume(B0, disk), "it fences"
    assert replicas(lab) == 0
    assert not await lab.platform.create_volume(B0, disk), "the controller has not seen that yet"
    lab.controllers.clings.add(POD_0)
    lab.controllers.settle(2)
    assert not await lab.platform.create_volume(B0, disk), "the pod still ends"
    assert lab.api.find(CLAIM, LEDGER_0) is None
    lab.controllers.clings.clear()
    lab.controllers.settle()
    assert await lab.platform.create_volume(B0, disk)


async def test_a_controller_that_lags_behind_the_fence_is_waited_for(lab: Lab) -> None:
    await lab.run_bookie()
    lab.api.remove(POD, POD_0)
    lab.api.remove(CLAIM, LEDGER_0)
    disk = lab.template().disks[1]
    for _ in range(2):
        assert not await lab.platform.create_volume(B0, disk), "no pod now; yet one may be made"
    lab.controllers.settle()
    assert await lab.platform.create_volume(B0, disk)


async def test_a_volume_that_still_ends_is_waited_for(lab: Lab) -> None:
    await lab.make_volumes()
    lab.api.begin_deletion(CLAIM, LEDGER_0)
    assert not await lab.platform.create_volume(B0, lab.template().disks[1])


async def test_a_volume_grows_where_it_lies(lab: Lab) -> None:
    await lab.make_volumes()
    before = uid_of(lab)
    disk = replace(lab.template().disks[1], size="20Gi")
    assert await lab.platform.expand_volume(B0, disk)
    assert not await lab.platform.expand_volume(B0, disk)
    found = (await lab.bookie()).volumes["ledger-0"]
    assert (found.size, found.uid) == ("20Gi", before)


async def test_the_strictest_access_mode_is_asked_for(lab: Lab) -> None:
    await lab.make_volumes()
    assert lab.api.the(CLAIM, LEDGER_0)["spec"]["accessModes"] == ["ReadWriteOncePod"]


# Starting


async def test_a_bookie_runs_on_its_volumes(lab: Lab) -> None:
    process = await lab.run_bookie()
    assert (process.running, process.is_ready, process.restarts) == (True, True, 0)
    assert process.control == "10.0.0.1:3183"
    assert process.revision == lab.template().revision
    text = lab.api.all(CONFIG_MAP)[0]["data"]["bookie.yaml"]
    assert all(uid_of(lab, f"demo-bookie-0-{disk}") in text for disk in ("journal", "ledger-1"))


@pytest.mark.parametrize("is_terminating", [True, False])
async def test_a_bookie_never_starts_without_all_volumes(lab: Lab, is_terminating: bool) -> None:
    await lab.reach_metadata()
    await lab.make_volumes()
    (lab.api.begin_deletion if is_terminating else lab.api.remove)(CLAIM, LEDGER_0)
    with pytest.raises(UnavailableError, match="bookie-0 has no volume ledger-0"):
        await lab.platform.start_bookie(lab.template())
    assert lab.api.find(STATEFUL_SET, SET_0) is None


async def test_no_bookie_starts_while_its_metadata_has_no_address(lab: Lab) -> None:
    await lab.make_volumes()
    with pytest.raises(UnavailableError, match="metadata"):
        await lab.platform.start_bookie(lab.template())


async def test_a_start_takes_the_fence_away(lab: Lab) -> None:
    await lab.run_bookie()
    lab.api.remove(CLAIM, LEDGER_0)
    for _ in range(3):
        await lab.platform.create_volume(B0, lab.template().disks[1])
        lab.controllers.settle(2)
    await lab.platform.start_bookie(lab.template())
    lab.controllers.settle()
    assert replicas(lab) == 1
    assert (await lab.process()).running


async def test_a_pod_that_cannot_run_is_replaced_by_a_start(lab: Lab) -> None:
    lab.controllers.holds.add(POD_0)
    process = await lab.run_bookie()
    assert not process.running
    await lab.platform.start_bookie(lab.template(image="mended:1"))
    lab.controllers.holds.clear()
    lab.controllers.settle(2)
    after = await lab.process()
    assert after.running and after.pod != process.pod
    assert after.revision == lab.template(image="mended:1").revision


async def test_a_start_again_leaves_a_running_bookie_alone(lab: Lab) -> None:
    before = await lab.run_bookie()
    await lab.platform.start_bookie(lab.template())
    lab.controllers.settle(2)
    assert await lab.process() == before


# Restarting


async def test_a_restart_brings_new_settings(lab: Lab) -> None:
    before = await lab.run_bookie()
    changed = lab.template(journal_write_data=True)
    assert await lab.platform.restart_bookie(changed, instance=before.instance)
    lab.controllers.settle(2)
    after = await lab.process()
    assert (after.revision, after.pod != before.pod) == (changed.revision, True)


@pytest.mark.parametrize("kind", [CONFIG_MAP, STATEFUL_SET])
async def test_a_restart_whose_settings_cannot_be_written_stops_nobody(
    lab: Lab, kind: Kind
) -> None:
    """Else the pod that comes has the old ones, and has to be stopped once more."""
    before = await lab.run_bookie()
    verb = "create" if kind == CONFIG_MAP else "patch"
    lab.api.refuse(verb, kind, "a webhook is away")
    changed = lab.template(journal_write_data=True)
    with pytest.raises(RefusedError):
        await lab.platform.restart_bookie(changed, instance=before.instance)
    lab.controllers.settle(2)
    assert (await lab.process()).instance == before.instance


async def test_a_restart_that_keeps_settings_brings_a_new_pod_of_the_old_ones(lab: Lab) -> None:
    before = await lab.run_bookie()
    changed = lab.template(journal_write_data=True)
    assert await lab.platform.restart_bookie(changed, instance=before.instance, keeps_settings=True)
    assert not await lab.platform.start_bookie(changed, keeps_settings=True), "between two pods"
    lab.controllers.settle(2)
    after = await lab.process()
    assert (after.revision, after.pod != before.pod) == (before.revision, True)


async def test_a_fenced_bookie_starts_with_new_settings_also_when_held_back(lab: Lab) -> None:
    await lab.run_bookie()
    lab.api.remove(CLAIM, LEDGER_0)
    for _ in range(3):
        await lab.platform.create_volume(B0, lab.template().disks[1])
        lab.controllers.settle(2)
    changed = lab.template(image="new:1")
    assert await lab.platform.start_bookie(changed, keeps_settings=True)
    lab.controllers.settle()
    assert (await lab.process()).revision == changed.revision


async def test_a_restart_is_of_that_very_container(lab: Lab) -> None:
    before = await lab.run_bookie()
    lab.controllers.restart_container(POD_0)
    with pytest.raises(PreconditionError, match=f"bookie-0 runs no more as {before.instance}"):
        await lab.platform.restart_bookie(lab.template(), instance=before.instance)
    lab.controllers.settle(2)
    assert (await lab.process()).restarts == 1, "the pod is still that one"


async def test_a_restart_is_of_that_very_pod(lab: Lab) -> None:
    before = await lab.run_bookie()
    lab.api.remove(POD, POD_0)
    lab.controllers.settle()
    with pytest.raises(PreconditionError):
        await lab.platform.restart_bookie(lab.template(), instance=before.instance)


async def test_a_restart_under_way_is_not_begun_again(lab: Lab) -> None:
    before = await lab.run_bookie()
    await lab.platform.restart_bookie(lab.template(), instance=before.instance)
    assert not await lab.platform.restart_bookie(lab.template(), instance=before.instance)


async def test_containers_beside_the_bookie_are_not_counted(lab: Lab) -> None:
    """A mesh puts its own container into every pod, and may put it first."""
    before = await lab.run_bookie()
    beside = {"name": "mesh", "restartCount": 7, "state": {"running": {}}}
    known = lab.api.the(POD, POD_0)["status"]["containerStatuses"]
    lab.api.set_status(POD, POD_0, containerStatuses=[beside, *known])
    assert await lab.platform.restart_bookie(lab.template(), instance=before.instance)


async def test_a_container_that_restarts_by_itself_keeps_its_settings(lab: Lab) -> None:
    process = await lab.run_bookie()
    first = lab.api.all(CONFIG_MAP)[0]["metadata"]["name"]
    changed = lab.template(journal_write_data=True)
    await lab.platform._run(changed)  # as far as a restart that dies halfway
    assert lab.api.find(CONFIG_MAP, first) is not None
    assert all(one["immutable"] for one in lab.api.all(CONFIG_MAP))
    await lab.platform.restart_bookie(changed, instance=process.instance)
    lab.controllers.settle(2)
    await lab.platform.start_bookie(changed)
    assert lab.api.find(CONFIG_MAP, first) is None, "nobody names it any more"


async def test_new_settings_of_one_bookie_take_those_of_no_other_away(lab: Lab) -> None:
    await lab.run_bookie(B1)
    before = lab.api.all(CONFIG_MAP)[0]["metadata"]["name"]
    await lab.run_bookie()
    await lab.platform.start_bookie(lab.template(journal_write_data=True))
    assert lab.api.find(CONFIG_MAP, before) is not None


async def test_a_pod_that_names_no_settings_keeps_none(lab: Lab) -> None:
    """As one that a person started to look at the disks, with the bookie's labels."""
    await lab.run_bookie()
    labels = names.labels("demo", names.BOOKIE, bookie=B0)
    lab.api.put(POD, {"metadata": {"name": "look", "labels": labels}, "spec": {"containers": []}})
    await lab.platform.start_bookie(lab.template())
    assert len(lab.api.all(CONFIG_MAP)) == 1


async def test_settings_that_the_operator_took_away_itself_are_no_change_of_others(
    lab: Lab,
) -> None:
    await lab.run_bookie()
    [first] = lab.api.all(CONFIG_MAP)
    for template in (lab.template(journal_write_data=True), lab.template()):
        await lab.platform.restart_bookie(template, instance=await lab.instance())
        lab.controllers.settle(2)
        await lab.platform.start_bookie(template)
        if lab.api.find(CONFIG_MAP, first["metadata"]["name"]) is None:
            lab.platform.noticed(CONFIG_MAP, first, is_gone=True)
    await lab.platform.settle(lab.cluster, ClusterStatus())
    assert lab.api.find(CONFIG_MAP, first["metadata"]["name"]) is not None
    assert not lab.api.all(EVENT)


# Replacing a volume


async def test_a_replaced_volume_goes_once_its_bookie_has_stopped(lab: Lab) -> None:
    await lab.run_bookie()
    before = uid_of(lab)
    assert await lab.platform.replace_volume(B0, "ledger-0", uid=before)
    assert (await lab.bookie()).volumes["ledger-0"].is_terminating
    lab.controllers.settle(2)
    assert lab.pod() is None and lab.api.find(CLAIM, LEDGER_0) is None
    assert all(await lab.make_volumes())
    await lab.platform.start_bookie(lab.template())
    lab.controllers.settle()
    assert uid_of(lab) != before and (await lab.process()).running


async def test_only_the_planned_volume_is_replaced(lab: Lab) -> None:
    await lab.run_bookie()
    with pytest.raises(PreconditionError, match="planned for another"):
        await lab.platform.replace_volume(B0, "ledger-0", uid="another")
    with pytest.raises(PreconditionError, match="is none"):
        await lab.platform.replace_volume(B0, "spare", uid="another")
    assert replicas(lab) == 1


async def test_a_replacement_under_way_is_not_begun_again(lab: Lab) -> None:
    await lab.run_bookie()
    before = uid_of(lab)
    lab.api.begin_deletion(CLAIM, LEDGER_0)
    assert not await lab.platform.replace_volume(B0, "ledger-0", uid=before)
    assert replicas(lab) == 0, "yet it is carried on: an operator may have died in between"


# Replacing a bookie that is away


async def given_up(lab: Lab, instance: str, *, is_node_lost: bool, **other: str) -> ReplaceBookie:
    """Of all volumes that it has; `other`: uids that are planned for instead, by disk."""
    volumes = {disk: one.uid for disk, one in (await lab.bookie()).volumes.items()}
    return ReplaceBookie(B0, tuple((volumes | other).items()), instance, is_node_lost)


async def test_a_bookie_on_a_lost_node_gets_new_volumes_and_its_pod_goes_by_force(lab: Lab) -> None:
    instance = (await lab.run_bookie()).instance
    action = await given_up(lab, instance, is_node_lost=True)
    assert await lab.platform.replace_bookie(action)
    assert lab.pod() is None, "nobody on the node says that it has ended"
    lab.controllers.settle(2)
    assert not await lab.platform.replace_bookie(replace(action, volumes=()))
    assert all(await lab.make_volumes())
    await lab.platform.start_bookie(lab.template())
    lab.controllers.settle()
    assert not {uid for _disk, uid in action.volumes} & {
        v.uid for v in (await lab.bookie()).volumes.values()
    }
    assert (await lab.process()).running


async def test_a_pod_whose_node_reports_ends_in_good_order(lab: Lab) -> None:
    instance = (await lab.run_bookie()).instance
    assert await lab.platform.replace_bookie(await given_up(lab, instance, is_node_lost=False))
    assert lab.pod() is not None and replicas(lab) == 0


async def test_when_one_volume_is_another_by_now_none_is_given_up(lab: Lab) -> None:
    instance = (await lab.run_bookie()).instance
    wrong = await given_up(lab, instance, is_node_lost=True, **{"ledger-0": "another"})
    with pytest.raises(PreconditionError, match="planned for another"):
        await lab.platform.replace_bookie(wrong)
    assert replicas(lab) == 1 and not any(
        one.is_terminating for one in (await lab.bookie()).volumes.values()
    )


async def test_a_bookie_that_runs_as_another_one_by_now_keeps_its_volumes(lab: Lab) -> None:
    await lab.run_bookie()
    action = await given_up(lab, "another.0", is_node_lost=True)
    with pytest.raises(PreconditionError, match="runs no more as"):
        await lab.platform.replace_bookie(action)
    assert replicas(lab) == 1


# Leaving


async def remove(lab: Lab, instance: str, *, delete_volumes: bool = False) -> list[bool]:
    """Asked in every pass until the bookie is not listed any more."""
    answers = []
    for _ in range(6):
        if B0 not in await lab.platform.bookies():
            return answers
        done = lab.platform.remove_bookie(RemoveBookie(B0, instance, delete_volumes))
        answers.append(await done)
        lab.controllers.settle()
    raise AssertionError("it is still there")


async def test_a_bookie_that_leaves_is_begun_once_and_gone_in_the_end(lab: Lab) -> None:
    process = await lab.run_bookie()
    answers = await remove(lab, process.instance)
    assert answers[0] and not any(answers[1:])
    assert lab.api.find(STATEFUL_SET, SET_0) is None and not lab.api.all(CONFIG_MAP)


async def test_volumes_of_a_bookie_that_left_are_kept(lab: Lab) -> None:
    process = await lab.run_bookie()
    await remove(lab, process.instance)
    assert len(lab.api.all(CLAIM)) == 3
    assert not await lab.platform.bookies(), "and are nobody's"


async def test_volumes_of_a_bookie_that_left_go_when_asked(lab: Lab) -> None:
    process = await lab.run_bookie()
    await remove(lab, process.instance, delete_volumes=True)
    assert not lab.api.all(CLAIM)


async def test_a_bookie_that_never_ran_leaves(lab: Lab) -> None:
    await lab.make_volumes()
    await remove(lab, "", delete_volumes=True)
    assert not lab.api.all(CLAIM)


async def test_another_process_than_the_emptied_one_stays(lab: Lab) -> None:
    process = await lab.run_bookie()
    lab.controllers.restart_container(POD_0)
    with pytest.raises(PreconditionError):
        await lab.platform.remove_bookie(RemoveBookie(B0, process.instance, delete_volumes=True))
    assert replicas(lab) == 1 and len(lab.api.all(CLAIM)) == 3


async def test_a_bookie_on_a_lost_node_leaves_and_its_pod_goes_by_force(lab: Lab) -> None:
    process = await lab.run_bookie()
    lab.api.begin_deletion(POD, POD_0)  # as the node's controller does: nobody ends it
    calm = RemoveBookie(B0, process.instance, delete_volumes=False)
    assert not await lab.platform.remove_bookie(calm) and replicas(lab) == 1
    action = replace(calm, is_node_lost=True)
    assert await lab.platform.remove_bookie(action)
    assert lab.pod() is None and replicas(lab) == 0
    lab.controllers.settle(2)
    await lab.platform.remove_bookie(action)
    assert not await lab.platform.bookies() and len(lab.api.all(CLAIM)) == 3


async def test_a_bookie_that_leaves_a_node_that_reports_ends_in_good_order(lab: Lab) -> None:
    """Nobody else may end its pod: another one on its volumes would be the same bookie twice."""
    process = await lab.run_bookie()
    assert await lab.platform.remove_bookie(RemoveBookie(B0, process.instance, True))
    assert replicas(lab) == 0 and lab.pod() is not None
    assert not [name for verb, kind, name in lab.api.calls if (verb, kind) == ("delete", POD.name)]


async def test_one_that_was_seen_without_a_pod_stays_when_it_has_one_by_now(lab: Lab) -> None:
    await lab.run_bookie()
    with pytest.raises(PreconditionError, match="runs no more as"):
        await lab.platform.remove_bookie(RemoveBookie(B0, "", delete_volumes=False))
    assert replicas(lab) == 1


async def test_kept_volumes_serve_again_after_a_scale_up(lab: Lab) -> None:
    process = await lab.run_bookie()
    await remove(lab, process.instance)
    before = uid_of(lab)
    after = await lab.run_bookie()
    assert after.running and uid_of(lab) == before
    assert names.RETAINED_LABEL not in lab.api.the(CLAIM, LEDGER_0)["metadata"]["labels"]


async def test_d9_claims_that_were_kept_are_told_with_their_bookie(lab: Lab) -> None:
    process = await lab.run_bookie()
    await lab.platform.bookies()
    assert await lab.platform.kept_claims() == {}, "it has not left"
    await remove(lab, process.instance)
    told = await lab.platform.kept_claims()
    assert told == {B0: tuple(sorted(one["metadata"]["name"] for one in lab.api.all(CLAIM)))}


async def test_d9_kept_claims_are_told_without_asking_the_api_server_again(lab: Lab) -> None:
    await remove(lab, (await lab.run_bookie()).instance)
    before = len(lab.api.calls)
    assert await lab.platform.kept_claims() and len(lab.api.calls) == before


async def test_d9_a_kept_claim_that_is_being_deleted_or_serves_again_is_not_told(lab: Lab) -> None:
    await remove(lab, (await lab.run_bookie()).instance)
    lab.api.begin_deletion(CLAIM, LEDGER_0)
    await lab.platform.bookies()
    assert LEDGER_0 not in (await lab.platform.kept_claims())[B0]
    await lab.make_volumes()
    await lab.platform.bookies()
    assert await lab.platform.kept_claims() == {}


async def test_d8_what_changed_since_it_was_read_is_not_deleted(lab: Lab) -> None:
    process = await lab.run_bookie()

    def restart() -> None:
        if lab.api.calls[-1][:2] == ("list", "Pod"):
            lab.api.after_call = lambda: None
            lab.controllers.restart_container(POD_0)

    lab.api.after_call = restart  # it runs on as another process, behind the last look
    with pytest.raises(PreconditionError):
        await lab.platform.restart_bookie(lab.template(image="b"), instance=process.instance)
    assert lab.pod() is not None and (await lab.process()).restarts == 1


# The end


async def test_d8_volumes_kept_by_a_scale_down_outlive_their_cluster(lab: Lab) -> None:
    process = await lab.run_bookie()
    await remove(lab, process.instance)
    assert await lab.platform.take_down(delete_volumes=True)
    lab.controllers.settle()
    assert len(lab.api.all(CLAIM)) == 3


async def test_a_fleet_is_down_when_no_pod_is_left(lab: Lab) -> None:
    await lab.run_bookie()
    lab.controllers.clings.add(POD_0)
    for _ in range(3):
        assert not await lab.platform.take_down(delete_volumes=True)
        lab.controllers.settle()
    assert len(lab.api.all(CLAIM)) == 3, "nothing is deleted under a bookie that still flushes"
    lab.controllers.clings.clear()
    lab.controllers.settle()
    assert await lab.platform.take_down(delete_volumes=True)
    lab.controllers.settle()
    assert not lab.api.all(CLAIM)


async def test_data_outlives_its_cluster_by_default(lab: Lab) -> None:
    await lab.run_bookie()
    for _ in range(3):
        await lab.platform.take_down(delete_volumes=False)
        lab.controllers.settle()
    assert len(lab.api.all(CLAIM)) == 3 and lab.pod() is None


# The metadata store


async def test_an_embedded_store_is_brought_up() -> None:
    lab = Lab(metadata={"embedded": {"size": "2Gi"}})
    lab.certify("zookeeper")
    assert await lab.reach_metadata() == "zks://demo-zookeeper.fleet.svc:2181/ledgers"
    claim = lab.api.the(CLAIM, "demo-zookeeper-data")
    assert claim["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    assert "ownerReferences" not in claim["metadata"]
    lab.controllers.settle()
    assert lab.api.the(POD, "demo-zookeeper-0")["status"]["phase"] == "Running"
    assert not await lab.platform.bookies(), "its volume and pod are no bookie's"


async def test_d10_the_stores_volume_grows_with_the_spec_and_a_refusal_is_told() -> None:
    lab = Lab(metadata={"embedded": {"size": "2Gi"}})
    await lab.reach_metadata()
    lab.api.edit(
        CLUSTER, "demo", lambda one: one["spec"]["metadata"]["embedded"].update(size="3Gi")
    )
    lab.api.refuse("patch", CLAIM, "only dynamically provisioned pvc can be resized")
    assert await lab.reach_metadata()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert "can be resized" in str(failed["PersistentVolumeClaim demo-zookeeper-data"])
    lab.api.allow_all()
    assert not await lab.platform.settle(lab.cluster, ClusterStatus())
    claim = lab.api.the(CLAIM, "demo-zookeeper-data")
    assert claim["spec"]["resources"]["requests"] == {"storage": "3Gi"}


# Jobs


async def test_a_job_is_started_once(lab: Lab) -> None:
    await lab.reach_metadata()
    assert await lab.platform.start_job(repair_job())
    later = lab.restarted()
    await later.metadata_url(lab.cluster)
    assert not await later.start_job(repair_job())
    assert len(lab.api.all(JOB)) == 1


async def test_old_jobs_are_pruned_and_running_ones_are_not(lab: Lab) -> None:
    await lab.reach_metadata()
    for number in range(JOBS_MAX + 3):
        await lab.platform.start_job(repair_job(f"demo-bookie-0-2-{number}"))
        lab.controllers.settle()
        if number:
            lab.controllers.end_job(f"demo-bookie-0-2-{number}")
    left = {one["metadata"]["name"] for one in lab.api.all(JOB)}
    assert {"demo-bookie-0-2-0", f"demo-bookie-0-2-{JOBS_MAX + 2}"} <= left
    assert "demo-bookie-0-2-1" not in left


async def test_a_job_that_cannot_be_pruned_holds_up_no_new_one(lab: Lab) -> None:
    await lab.reach_metadata()
    for number in range(JOBS_MAX + 1):
        await lab.platform.start_job(repair_job(f"demo-bookie-0-2-{number}"))
        lab.controllers.settle()
        lab.controllers.end_job(f"demo-bookie-0-2-{number}")
    lab.api.refuse("delete", JOB, "a policy")
    with pytest.raises(RefusedError):
        await lab.platform.start_job(repair_job("demo-bookie-0-2-now"))
    assert "demo-bookie-0-2-now" in {one["metadata"]["name"] for one in lab.api.all(JOB)}


async def test_a_stopped_job_takes_its_pod_along(lab: Lab) -> None:
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job())
    lab.controllers.settle()
    await lab.platform.stop_job("demo-bookie-0-2-1")
    await lab.platform.stop_job("demo-bookie-0-2-1")
    lab.controllers.settle(2)
    assert not lab.api.all(JOB) and not lab.api.all(POD)


# Tasks and status


def put_task(lab: Lab, name: str, **spec: object) -> None:
    whole = {"cluster": "demo", "type": "audit"} | spec
    lab.api.put(TASK, {"metadata": {"name": name}, "spec": whole})


async def test_only_this_clusters_tasks_are_seen(lab: Lab) -> None:
    put_task(lab, "b")
    put_task(lab, "a")
    put_task(lab, "c", cluster="other")
    assert [task.metadata.name for task in await lab.platform.tasks()] == ["a", "b"]


async def test_d14_a_task_belongs_to_the_very_cluster_that_saw_it(lab: Lab) -> None:
    put_task(lab, "look")
    assert await lab.platform.tasks()
    assert not await lab.platform.settle(lab.cluster, ClusterStatus())
    [owner] = lab.api.the(TASK, "look")["metadata"]["ownerReferences"]
    of = ("BookieCluster", "demo", lab.cluster.metadata.uid)
    assert (owner["kind"], owner["name"], owner["uid"]) == of
    assert await lab.platform.tasks()
    body = lab.api.the(CLUSTER, "demo")
    lab.api.remove(CLUSTER, "demo")
    lab.api.put(CLUSTER, {"metadata": {"name": "demo"}, "spec": body["spec"]})
    assert not await lab.restarted().tasks(), "a pending task of a cluster that is gone"


async def test_d14_a_task_that_something_controls_is_not_controlled_by_its_cluster(
    lab: Lab,
) -> None:
    """A server takes no second controller."""
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "nightly", "uid": "maker"}
    owners = [maker | {"controller": True}]
    spec = {"cluster": "demo", "type": "audit"}
    lab.api.put(TASK, {"metadata": {"name": "look", "ownerReferences": owners}, "spec": spec})
    assert await lab.platform.tasks()
    assert not await lab.platform.settle(lab.cluster, ClusterStatus())
    found = lab.api.the(TASK, "look")["metadata"]["ownerReferences"]
    assert {one["kind"]: one["controller"] for one in found}["BookieCluster"] is False


async def test_d14_a_task_is_made_the_clusters_own_once(lab: Lab) -> None:
    for name in ("one", "two", "three"):
        put_task(lab, name)
        for _ in range(2):
            await lab.platform.tasks()
            assert not await lab.platform.settle(lab.cluster, ClusterStatus())
    written = [name for verb, kind, name in lab.api.calls if (verb, kind) == ("patch", TASK.name)]
    assert written == ["one", "two", "three"]


async def test_d14_only_the_very_task_is_deleted(lab: Lab) -> None:
    put_task(lab, "look")
    await lab.platform.delete_task("look", uid="another")
    assert lab.api.find(TASK, "look") is not None
    await lab.platform.delete_task("look", uid=lab.api.the(TASK, "look")["metadata"]["uid"])
    assert lab.api.find(TASK, "look") is None


async def test_a_task_with_a_mistake_is_told_and_stops_no_other(lab: Lab) -> None:
    put_task(lab, "wrong", type="explode")
    put_task(lab, "right")
    for _ in range(3):
        assert [task.metadata.name for task in await lab.platform.tasks()] == ["right"]
    [told] = lab.api.all(EVENT)
    assert told["reason"] == "TaskInvalid" and "wrong: " in told["message"]


async def test_a_mistake_that_cannot_be_told_stops_no_other_either(lab: Lab) -> None:
    put_task(lab, "wrong", type="explode")
    put_task(lab, "right")
    lab.api.refuse("create", EVENT, "exceeded quota: count/events")
    assert [task.metadata.name for task in await lab.platform.tasks()] == ["right"]


async def test_a_tasks_status_is_published(lab: Lab) -> None:
    put_task(lab, "audit")
    status = TaskStatus(phase=TaskPhase.RUNNING, target="demo-audit-1")
    [task] = await lab.platform.tasks()
    await lab.platform.publish_task(task.model_copy(update={"status": status}))
    assert (await lab.platform.tasks())[0].status == status


async def test_a_tasks_status_is_published_though_the_task_was_bound_since_it_was_read(
    lab: Lab,
) -> None:
    """In the pass that sees it first: else its job would wait for the next one."""
    put_task(lab, "audit")
    await lab.reach_metadata()
    await lab.platform.bookies()
    [task] = await lab.platform.tasks()
    before = task.metadata.resource_version
    assert not await lab.platform.settle(lab.cluster, ClusterStatus())
    assert lab.api.the(TASK, "audit")["metadata"]["resourceVersion"] != before
    status = TaskStatus(phase=TaskPhase.RUNNING, target="demo-audit-1")
    await lab.platform.publish_task(task.model_copy(update={"status": status}))
    assert (await lab.platform.tasks())[0].status == status


async def test_a_task_made_again_under_a_name_gets_no_status_of_the_one_before(lab: Lab) -> None:
    put_task(lab, "once", type="audit")
    [task] = await lab.platform.tasks()
    lab.api.remove(TASK, "once")  # kubectl replace --force: a task cannot be changed
    put_task(lab, "once", type="scrub")
    with pytest.raises(PreconditionError, match="another one by now"):
        await lab.platform.publish_task(task)
    assert "status" not in lab.api.the(TASK, "once")


async def test_a_status_is_published_for_the_object_that_was_read(lab: Lab) -> None:
    read = lab.cluster
    update = {"status": ClusterStatus(phase="Running", observed_generation=1)}
    await lab.platform.publish(read.model_copy(update=update))
    assert lab.cluster.status.phase == "Running"
    with pytest.raises(PreconditionError):
        await lab.platform.publish(read.model_copy(update={"status": ClusterStatus()}))
    assert lab.cluster.status.phase == "Running"


async def test_a_crd_older_than_the_operator_gets_the_status_it_has_room_for(lab: Lab) -> None:
    read, lab.api.not_in_schema = lab.cluster, {"limbo"}
    update = {"status": ClusterStatus(phase="Running", observed_generation=1)}
    await lab.platform.publish(read.model_copy(update=update))
    assert lab.cluster.status.phase == "Running"
    with pytest.raises(PreconditionError):
        await lab.platform.publish(read.model_copy(update=update))


async def test_the_disruption_budget_follows_the_status(lab: Lab) -> None:
    for allowed in (1, 0):
        await lab.platform.settle(lab.cluster, ClusterStatus(disruptions_allowed=allowed))
        spec = lab.api.the(BUDGET, "demo-bookies")["spec"]
        assert spec["maxUnavailable"] == allowed
        # Or a node's drain would take one away that boots or flushes, whatever is allowed.
        assert spec["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
    assert {one["metadata"]["name"] for one in lab.api.all(SERVICE)} == {"demo", "demo-bookies"}


async def test_what_somebody_else_put_into_an_object_stays(lab: Lab) -> None:
    await lab.platform.settle(lab.cluster, ClusterStatus())
    lab.api.edit(SERVICE, "demo", lambda one: one["metadata"].update(annotations={"mesh": "on"}))
    await lab.restarted().settle(lab.cluster, ClusterStatus(disruptions_allowed=1))
    assert lab.api.the(SERVICE, "demo")["metadata"]["annotations"] == {"mesh": "on"}


# What lacks


async def test_a_lacking_permission_is_told(lab: Lab) -> None:
    lab.api.forbid("list", POD)
    with pytest.raises(ForbiddenError, match="cannot list resource"):
        await lab.platform.bookies()


@pytest.mark.parametrize("how", ["forbidden", "gone", "known"])
async def test_a_nodes_boot_is_a_hint_only(lab: Lab, how: str) -> None:
    info = {"status": {"nodeInfo": {"bootID": "boot-1"}}}
    if how != "gone":
        lab.api.put(NODE, {"metadata": {"name": NODE_NAME}, **info})
    if how == "forbidden":
        lab.api.forbid("get", NODE)
    process = await lab.run_bookie()
    assert process.node == NODE_NAME
    assert process.node_boot_id == ("boot-1" if how == "known" else "")


async def test_a_drain_runs_under_its_own_name(lab: Lab) -> None:
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job("demo-drain-bookie-0-1", kind=JobKind.DRAIN))
    [found] = await lab.platform.jobs()
    assert (found.kind, found.bookie, found.running) == (JobKind.DRAIN, B0, True)
