"""What Spark is told in a Job's pod, and what is said when no executor comes."""

import json
import re
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.repair.engine.choice import SPARK_LEDGERS_MIN, check_engine, choose_engine
from bookie.repair.engine.driver_pod import (
    DRIVER_LABEL,
    REQUIRED,
    DriverPod,
    driver_obstacle,
    executor_pod,
    executor_template,
    mebibytes,
    spark_conf,
)

from bookie import pods

ENVIRONMENT = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "6443",
    "POD_IP": "10.244.0.9",
    "POD_NAME": "demo-bookie-1-2-1-x7k2p",
    "POD_NAMESPACE": "data",
    "REPAIR_IMAGE": "bookie-operator/repair:dev",
}


def conf(**more: str) -> dict[str, str]:
    return spark_conf(DriverPod.from_environment(ENVIRONMENT | more), Path("/tmp/t.yaml"))


def test_the_driver_is_found_by_the_address_of_its_pod() -> None:
    told = conf()
    assert told["spark.master"] == "k8s://https://10.96.0.1:6443"
    assert told["spark.driver.host"] == told["spark.driver.bindAddress"] == "10.244.0.9"
    assert told["spark.kubernetes.namespace"] == "data"
    assert told["spark.kubernetes.driver.pod.name"] == ENVIRONMENT["POD_NAME"]


def test_spark_gets_an_address_of_ip_version_6_in_brackets() -> None:
    said = conf(POD_IP="fd00::9")
    assert said["spark.driver.host"] == said["spark.driver.bindAddress"] == "[fd00::9]"


def test_an_api_server_of_ip_version_6_is_put_in_brackets() -> None:
    assert conf(KUBERNETES_SERVICE_HOST="fd00::1")["spark.master"].endswith("//[fd00::1]:6443")


def test_executors_are_what_the_operator_asks_for() -> None:
    told = conf(
        REPAIR_EXECUTORS="3", REPAIR_EXECUTOR_MEMORY="1g", REPAIR_EXECUTOR_CPU="2",
        REPAIR_IMAGE_PULL_POLICY="Never", REPAIR_SERVICE_ACCOUNT="demo-repair",
    )  # fmt: skip
    assert (told["spark.executor.instances"], told["spark.executor.memory"]) == ("3", "1g")
    assert told["spark.kubernetes.executor.request.cores"] == "2"
    assert told["spark.kubernetes.container.image.pullPolicy"] == "Never"
    assert told["spark.kubernetes.authenticate.executor.serviceAccountName"] == "demo-repair"


def test_without_wishes_there_are_two_small_executors() -> None:
    told = conf(REPAIR_EXECUTOR_MEMORY="")
    assert (told["spark.executor.instances"], told["spark.executor.memory"]) == ("2", "512m")
    assert told["spark.executor.memoryOverhead"] == "384m"


def test_executors_pull_their_image_with_the_drivers_secrets_where_there_are_any() -> None:
    name = "spark.kubernetes.container.image.pullSecrets"
    assert conf(REPAIR_IMAGE_PULL_SECRETS="one,two")[name] == "one,two"
    assert name not in conf() and name not in conf(REPAIR_IMAGE_PULL_SECRETS="")


def test_no_right_is_needed_but_to_make_pods() -> None:
    assert conf()["spark.kubernetes.executor.disableConfigMap"] == "true"


def test_executors_get_names_of_their_driver_that_kubernetes_takes() -> None:
    for name in ("a" * 46 + "-", "a" * 38 + "--" + "b" * 10):
        prefix = conf(POD_NAME=name)["spark.kubernetes.executor.podNamePrefix"]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", prefix) and len(prefix) <= 47


def test_executors_of_two_drivers_never_have_one_name() -> None:
    """Those of the driver before are kept for a day."""
    names = [f"{'a' * 40}-bookie-10-1{suffix}" for suffix in ("-1-x7k2p", "-2-x7k2p", "-1-9zz9z")]
    prefixes = {conf(POD_NAME=n)["spark.kubernetes.executor.podNamePrefix"] for n in names}
    assert len(prefixes) == len(names)


def test_a_pod_that_is_asked_for_is_of_an_executors_size() -> None:
    wanted = {"REPAIR_EXECUTOR_MEMORY": "1g", "REPAIR_EXECUTOR_OVERHEAD": "384m"}
    made = executor_pod(DriverPod.from_environment(ENVIRONMENT | wanted))
    first = made["spec"]["containers"][0]
    assert first["resources"]["requests"] == {"cpu": "100m", "memory": "1408Mi"}
    assert (first["image"], first["securityContext"]) == (
        ENVIRONMENT["REPAIR_IMAGE"],
        pods.container_security(),
    )


def test_a_pod_that_is_asked_for_has_the_account_that_spark_gives_executors() -> None:
    account = {"REPAIR_SERVICE_ACCOUNT": "demo-repair"}
    made = executor_pod(DriverPod.from_environment(ENVIRONMENT | account))["spec"]
    assert made["serviceAccountName"] == "demo-repair"
    assert made["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("size", "count"), [("512m", 512), ("2g", 2048), ("1gb", 1024), ("7", 7), ("1k", 1), ("x", 0)]
)
def test_sizes_are_read_as_spark_reads_them(size: str, count: int) -> None:
    assert mebibytes(size) == count


@pytest.mark.parametrize("count", ["0", "65", "many", "nan"])
def test_a_number_of_executors_that_makes_no_sense_is_refused(count: str) -> None:
    with pytest.raises(SettingsError, match=f"REPAIR_EXECUTORS is '{count}'.* from 1 to 64"):
        conf(REPAIR_EXECUTORS=count)


def test_executors_are_restricted_and_have_no_token() -> None:
    template = executor_template(DriverPod.from_environment(ENVIRONMENT))
    spec = template["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    own = spec["containers"][0]["securityContext"]
    assert own["capabilities"] == {"drop": ["ALL"]} and own["readOnlyRootFilesystem"] is True


def test_executors_are_labelled_as_their_clusters() -> None:
    driver = DriverPod.from_environment(ENVIRONMENT | {"REPAIR_CLUSTER": "demo"})
    labels = executor_template(driver)["metadata"]["labels"]
    assert labels["bookkeeper.bookie-operator.dev/cluster"] == "demo"
    assert labels["bookkeeper.bookie-operator.dev/component"] == "executor"


def test_what_the_operator_adds_to_executors_is_there_and_our_labels_stay() -> None:
    given = pods.executor_template()
    given["metadata"] = {
        "labels": {"team": "storage", DRIVER_LABEL: "x"},
        "annotations": {"a": "b"},
    }
    given["spec"]["priorityClassName"] = "low"
    driver = DriverPod.from_environment(
        ENVIRONMENT | {"REPAIR_EXECUTOR_TEMPLATE": json.dumps(given)}
    )
    made = executor_template(driver)
    assert made["metadata"]["labels"]["team"] == "storage"
    assert made["metadata"]["labels"][DRIVER_LABEL] == ENVIRONMENT["POD_NAME"]
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert made["spec"]["priorityClassName"] == "low" and made["kind"] == "Pod"


@pytest.mark.parametrize("given", ["{", "[]x", '{"metadata": {}}', '{"metadata": {}, "spec": {}}'])
def test_a_template_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match=r"REPAIR_EXECUTOR_TEMPLATE is .* expected metadata"):
        DriverPod.from_environment(ENVIRONMENT | {"REPAIR_EXECUTOR_TEMPLATE": given})


@pytest.mark.parametrize("name", REQUIRED)
def test_a_driver_without_what_it_needs_is_refused_by_name(name: str) -> None:
    environ = {key: value for key, value in ENVIRONMENT.items() if key != name}
    with pytest.raises(SettingsError, match=name):
        DriverPod.from_environment(environ)


@pytest.mark.parametrize("name", REQUIRED)
def test_the_engine_is_refused_where_it_cannot_run_and_says_what_is_missing(name: str) -> None:
    environ = {key: value for key, value in ENVIRONMENT.items() if key != name}
    assert name in (driver_obstacle(environ) or "")
    with pytest.raises(SettingsError, match=f"{name} is not set.*inline, spark-local"):
        check_engine("spark-kubernetes", environ=environ)


def test_in_a_jobs_pod_many_ledgers_get_executors_and_few_do_not() -> None:
    many = choose_engine("auto", ledgers=SPARK_LEDGERS_MIN, environ=ENVIRONMENT)
    few = choose_engine("auto", ledgers=SPARK_LEDGERS_MIN - 1, environ=ENVIRONMENT)
    assert (many.name, few.name) == ("spark-kubernetes", "inline")
    assert "may make executors" in many.reason and str(SPARK_LEDGERS_MIN) in few.reason
