"""What the operator asks Kubernetes for: pods that may run anywhere, settings that never change."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from bookie.ids import BookieId
from bookie.server.settings import load_settings
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import LossDecision, StartJob
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CONFIG_MAP,
    JOB,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Object,
)
from bookie_operator.platform.kubernetes.bookies import flush_command
from bookie_operator.platform.kubernetes.jobs import command
from kubernetes_lab import B0, Lab, repair_job

URL = "zk://zk:2181/ledgers"
DRAIN = StartJob("demo-drain-bookie-0-1", JobKind.DRAIN, "inline", 1, B0)
AUDIT = StartJob("demo-audit-1", JobKind.AUDIT, "auto", 1)


async def everything(**spec: Any) -> Lab:
    """A cluster with a ZooKeeper, a bookie, a repair and an audit."""
    lab = Lab(**({"metadata": {"embedded": {}}} | spec))
    await lab.run_bookie()
    for job in (repair_job(), AUDIT, DRAIN):
        await lab.platform.start_job(job)
    return lab


async def driven(**spec: Any) -> Lab:
    """A cluster with a repair whose engine may be Spark with executors in pods."""
    lab = Lab(**spec)
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job(engine="auto"))
    return lab


def pods(lab: Lab) -> Iterator[Object]:
    for kind in (STATEFUL_SET, JOB):
        for one in lab.api.all(kind):
            yield one["spec"]["template"]["spec"]


async def bookie_set(**spec: Any) -> Object:
    lab = Lab(**spec)
    await lab.run_bookie()
    return lab.api.the(STATEFUL_SET, "demo-bookie-0")


async def bookie_pod(**spec: Any) -> Any:
    return (await bookie_set(**spec))["spec"]["template"]["spec"]


# Every pod


async def test_every_pod_meets_the_restricted_standard() -> None:
    found = list(pods(await everything()))
    assert len(found) == 5
    for pod in found:
        security = pod["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            inner = container["securityContext"]
            assert inner["allowPrivilegeEscalation"] is False
            assert inner["capabilities"] == {"drop": ["ALL"]}
            assert inner["readOnlyRootFilesystem"] is True


async def test_every_pod_mounts_only_kinds_that_the_standard_allows() -> None:
    allowed = {"name", "configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "secret"}
    for pod in pods(await everything()):
        assert all(set(volume) <= allowed for volume in pod["volumes"])
        mounted = {m["name"] for c in pod["containers"] for m in c["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


async def test_a_driver_may_handle_pods_and_nothing_else() -> None:
    lab = await driven()
    [role] = lab.api.all(ROLE)
    verbs = ["get", "list", "watch", "create", "delete"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    [binding] = lab.api.all(ROLE_BINDING)
    assert [one["name"] for one in binding["subjects"]] == ["demo-spark-driver"]


async def test_a_zookeeper_shows_its_figures_from_its_next_start_on() -> None:
    keeper = (await everything()).api.the(STATEFUL_SET, "demo-zookeeper")["spec"]
    [container] = keeper["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {"name": "BOOKIE_ZOOKEEPER_METRICS_PORT", "value": "7000"} in container["env"]
    assert ports == {"client": 2181, "metrics": 7000}
    assert keeper["updateStrategy"] == {"type": "OnDelete"}, "none is restarted for it"


async def test_no_variables_of_services_are_read_as_settings() -> None:
    assert all(pod["enableServiceLinks"] is False for pod in pods(await everything()))


async def test_every_pod_says_what_it_needs_and_no_more() -> None:
    for pod in pods(await everything()):
        [container] = pod["containers"]
        assert set(container["resources"]) == {"requests"}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


async def test_everything_but_data_goes_with_the_cluster() -> None:
    lab = await everything()
    uid = lab.cluster.metadata.uid
    for kind in (STATEFUL_SET, JOB, SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CONFIG_MAP):
        for one in lab.api.all(kind):
            assert one["metadata"]["ownerReferences"][0]["uid"] == uid
            assert one["metadata"]["labels"][names.CLUSTER_LABEL] == "demo"
    assert all("ownerReferences" not in one["metadata"] for one in lab.api.all(CLAIM))


# Bookies


async def test_nothing_kills_a_bookie_that_boots_for_long() -> None:
    [container] = (await bookie_pod())["containers"]
    assert {key for key in container if key.endswith("Probe")} == {"readinessProbe"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


async def test_a_running_pod_is_the_planners_to_replace() -> None:
    spec = (await bookie_set())["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert "volumeClaimTemplates" not in spec


async def test_a_stop_has_time_to_flush() -> None:
    pod = await bookie_pod(gracePeriodSeconds=120)
    assert pod["terminationGracePeriodSeconds"] == 120
    hook = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == flush_command(120) == ["bookie", "flush", "--timeout", "60"]


async def test_settings_name_the_volumes_that_are_there_and_suit_the_bookie(tmp_path: Any) -> None:
    lab = Lab()
    await lab.run_bookie()
    text = lab.api.all(CONFIG_MAP)[0]["data"]["bookie.yaml"]
    (tmp_path / "bookie.yaml").write_text(text)
    settings = load_settings(tmp_path / "bookie.yaml", {})
    told = {str(d.directory): d.volume_uid for d in (settings.journal, *settings.ledgers)}
    disks = ("journal", "ledger-0", "ledger-1")
    claims = [lab.api.the(CLAIM, f"demo-bookie-0-{disk}") for disk in disks]
    uids = [one["metadata"]["uid"] for one in claims]
    assert told == {f"/data/{disk}": uid for disk, uid in zip(disks, uids, strict=True)}
    assert (settings.bookie_id, settings.metadata) == ("bookie-0", URL)


async def test_settings_are_immutable_and_named_by_their_content() -> None:
    lab = Lab()
    await lab.run_bookie()
    [first] = lab.api.all(CONFIG_MAP)
    await lab.platform._run(lab.template(flush_interval_seconds=3.0))
    assert len(lab.api.all(CONFIG_MAP)) == 2
    assert first["immutable"] and first in lab.api.all(CONFIG_MAP)
    tree = lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"]["template"]["spec"]["volumes"][0]
    assert tree["configMap"]["name"] != first["metadata"]["name"]


@pytest.mark.parametrize("policy", ["Auto", "Approve", "Never"])
async def test_a_bookie_asks_before_it_takes_a_disk_unless_it_never_may(policy: str) -> None:
    lab = Lab(cookieFix={"policy": policy})
    await lab.run_bookie()
    tree = yaml.safe_load(lab.api.all(CONFIG_MAP)[0]["data"]["bookie.yaml"])
    assert tree["cookieFix"] == {"policy": "Never" if policy == "Never" else "Approve"}


async def test_bookies_keep_apart_as_far_as_asked() -> None:
    wish = (await bookie_pod())["affinity"]["podAntiAffinity"]
    assert list(wish) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    must = await bookie_pod(scheduling={"required": True, "topologyKey": "rack"})
    [term] = must["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "rack"
    assert term["labelSelector"]["matchLabels"][names.COMPONENT_LABEL] == "bookie"
    assert must["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway"


async def test_a_person_decides_where_bookies_run() -> None:
    pod = await bookie_pod(
        scheduling={
            "nodeSelector": {"disk": "nvme"},
            "tolerations": [{"key": "storage", "operator": "Exists", "effect": "NoExecute"}],
            "priorityClassName": "high",
        },
        imagePullSecrets=["registry"],
    )
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"disk": "nvme"}, "high")
    exists = {"key": "storage", "operator": "Exists", "effect": "NoExecute"}
    assert pod["tolerations"] == [exists]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


# Services


async def test_b1_a_bookie_registers_its_name_and_not_the_address_of_its_pod() -> None:
    lab = await everything()
    owner = lab.api.the(STATEFUL_SET, "demo-bookie-0")
    [container] = owner["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    pod, service, *rest = str(variables["BOOKIE_HOST"]).split(".")
    assert (pod, rest) == ("demo-bookie-0-0", [lab.cluster.metadata.namespace, "svc"])
    assert service == owner["spec"]["serviceName"] == "demo-bookies"
    assert lab.api.the(SERVICE, service)["spec"]["publishNotReadyAddresses"], "also while it boots"


async def test_clients_find_bookies_that_serve_and_peers_find_all() -> None:
    lab = await everything()
    headless = lab.api.the(SERVICE, "demo-bookies")["spec"]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"]
    client = lab.api.the(SERVICE, "demo")["spec"]
    assert {port["name"] for port in client["ports"]} == {"run", "stock", "http"}
    assert "publishNotReadyAddresses" not in client


# Jobs


def test_a_repair_tells_its_counts_in_the_termination_message() -> None:
    words = command(repair_job(), URL)
    assert words[:4] == ["bookie", "repair", "--metadata", URL]
    assert words[words.index("--bookie") + 1] == "bookie-0"
    assert words[words.index("--summary") + 1] == "/dev/termination-log"


def test_each_kind_of_job_has_its_word() -> None:
    assert [command(job, URL)[1] for job in (repair_job(), AUDIT, DRAIN)] == [
        "repair",
        "audit",
        "drain",
    ]
    assert "--bookie" not in command(AUDIT, URL)
    assert command(DRAIN, URL)[-2:] == ["--", DRAIN.bookie_id], "however its name begins"


@pytest.mark.parametrize("reason", ["two disks burnt", "--yes; rm -rf / $(reboot)", "'\"`"])
def test_a_persons_words_stay_one_argument(reason: str) -> None:
    decision = LossDecision("7", 3, reason, approved_by="ann")
    words = command(repair_job(kind=JobKind.ACCEPT_LOSS, decision=decision), URL)
    assert words[:4] == ["bookie", "ledger", "accept-loss", "7"]
    assert f"--reason={reason} (approved by ann)" in words
    assert words[words.index("--entry") + 1] == "3"


async def test_a_job_is_tried_once_and_ends_by_itself() -> None:
    lab = await driven(repair={"deadlineSeconds": 600, "executors": 3})
    job = lab.api.the(JOB, "demo-bookie-0-2-1")
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert job["spec"]["activeDeadlineSeconds"] > 600
    [container] = job["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one.get("value", "") for one in container["env"]}
    assert values["REPAIR_EXECUTORS"] == "3"
    assert values["REPAIR_SERVICE_ACCOUNT"] == "demo-repair"
    assert {"POD_IP", "POD_NAME", "POD_NAMESPACE", "POD_UID"} <= set(values)


@pytest.mark.parametrize("length", [1, 40])
async def test_names_and_labels_fit_kubernetes_limits(length: int) -> None:
    bookie_id = BookieId("bookie-99")
    name = "d" * length
    own = names.labels(name, names.BOOKIE, bookie=bookie_id, disk="l" * 20)
    assert all(len(value) <= 63 for value in own.values())
    assert len(names.pod_name(name, bookie_id)) <= 63 - len("-1234567890"), "and its revision"
    assert len(names.claim_name(name, bookie_id, "l" * 20)) <= 253
