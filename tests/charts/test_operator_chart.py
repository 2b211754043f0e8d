"""The operator's chart: what it renders to, without a cluster."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from bookie.repair.reports.classes import OF_ENTRIES, OF_OTHERS
from bookie_operator.kubectl.reasons import BY_REASON
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.platform.kubernetes import api, names
from bookie_operator.platform.kubernetes.bookies import ADMIN_PORT
from bookie_operator.platform.kubernetes.surroundings import EXECUTOR_VERBS
from bookie_operator.serve import NAMES_VARIABLE
from helm_charts import OPERATOR, ROOT, Object, helm, of_kind, only, render, template
from kubernetes_lab import Lab

GROUP: Final = "bookkeeper.bookie-operator.dev"
RBAC: Final = "rbac.authorization.k8s.io"
USED: Final = {
    (GROUP, "bookieclusters"): "get list watch patch",
    (GROUP, "bookieclusters/status"): "update",
    (GROUP, "bookietasks"): "get list watch patch delete",
    (GROUP, "bookietasks/status"): "update",
    ("", "pods"): "get list watch create delete patch",
    ("", "pods/log"): "get",
    ("", "persistentvolumeclaims"): "get list watch create patch delete",
    ("", "configmaps"): "get list watch create delete",
    ("", "services"): "list watch create patch delete",
    ("", "serviceaccounts"): "list watch create patch",
    ("networking.k8s.io", "networkpolicies"): "list watch create patch delete",
    ("", "secrets"): "get create patch",
    ("", "events"): "get list create patch",
    ("apps", "statefulsets"): "get list watch create patch delete",
    ("batch", "jobs"): "list watch create delete",
    ("policy", "poddisruptionbudgets"): "list watch create patch",
    (RBAC, "roles"): "list watch create patch delete",
    (RBAC, "rolebindings"): "list watch create patch delete",
}
"""What the operator does in a namespace. A server-side apply that makes an object needs create."""
OF_CERT_MANAGER: Final = {
    ("cert-manager.io", "certificates"): "get list create patch delete",
    ("cert-manager.io", "issuers"): "get",
    ("cert-manager.io", "clusterissuers"): "get",
}
"""Only with the value `rbac.certManager`."""
USED_CLUSTER_WIDE: Final = {
    ("", "nodes"): "get",
    ("storage.k8s.io", "storageclasses"): "get list",
    ("storage.k8s.io", "csidrivers"): "get",
}
WHOLE: Final = "ops-demo-bookie-operator"
"""Name of what is not in a namespace."""
NEVER: Final = ("pods/exec", "persistentvolumes", "namespaces")
EVERYTHING: Final = (
    "--set=metrics.podMonitor.enabled=true",
    "--set=metrics.bookies.enabled=true",
    "--set=metrics.zookeeper.enabled=true",
    "--set=metrics.prometheusRule.enabled=true",
    "--set=networkPolicy.enabled=true",
    "--set=verbose=true",
    "--set=watchNamespaces={one,two}",
    "--set=imagePullSecrets[0].name=registry",
    "--set=priorityClassName=storage",
    '--set-json=networkPolicy.metricsFrom=[{"namespaceSelector": {}}]',
    '--set-json=extraEnv=[{"name": "A", "value": "b"}]',
)


def granted(role: Object) -> dict[tuple[str, str], set[str]]:
    rights: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            rights.setdefault((rule["apiGroups"][0], resource), set()).update(rule["verbs"])
    return rights


def operator_role(objects: list[Object]) -> Object:
    return next(
        role
        for role in of_kind(objects, "ClusterRole")
        if role["metadata"]["name"] == "ops-demo-bookie-operator"
    )


def lease_role(objects: list[Object]) -> Object:
    names = [role["metadata"]["name"] for role in of_kind(objects, "Role")]
    return of_kind(objects, "Role")[names.index("demo-bookie-operator-lease")]


async def made(name: str) -> Object:
    """The template of the pods of this StatefulSet, as the platform makes it."""
    lab = Lab(metadata={"embedded": {}})
    await lab.run_bookie()
    found: Object = lab.api.the(api.STATEFUL_SET, name)["spec"]["template"]
    return found


def pods(objects: list[Object]) -> list[Object]:
    found = of_kind(objects, "Deployment") + of_kind(objects, "Job")
    return [tree["spec"]["template"]["spec"] for tree in found]


@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["defaults", "everything"])
def test_lint_finds_nothing(values: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", OPERATOR, *values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_option_renders() -> None:
    kinds = {tree["kind"] for tree in render(OPERATOR, *EVERYTHING)}
    assert kinds >= {"PodMonitor", "PrometheusRule", "NetworkPolicy", "Role", "Service", "Job"}


def test_the_operators_own_network_policy_has_the_ports_and_peers_of_its_values() -> None:
    ports = {"apiServerPorts": [6443], "metadataPorts": [2181, 2281]}
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    value = {"enabled": True, "metricsFrom": peers, **ports}
    objects = render(OPERATOR, f"--set-json=networkPolicy={json.dumps(value)}")
    spec = only(objects, "NetworkPolicy")["spec"]
    [scrapes], [names_asked, anywhere, _bookies] = spec["ingress"], spec["egress"]
    assert scrapes["from"] == peers and "to" not in anywhere
    assert [one["port"] for one in anywhere["ports"]] == [6443, 2181, 2281]
    asked = {(one["port"], one["protocol"]) for one in names_asked["ports"]}
    assert asked == {(53, "UDP"), (53, "TCP")}


def test_the_operators_own_network_policy_lets_it_ask_bookies_of_every_namespace() -> None:
    *_others, rule = only(render(OPERATOR, *EVERYTHING), "NetworkPolicy")["spec"]["egress"]
    [peer] = rule["to"]
    assert peer.get("namespaceSelector") == {}, "without one: the operator's own namespace alone"
    assert peer["podSelector"]["matchLabels"].items() <= names.labels("demo", names.BOOKIE).items()
    assert rule["ports"] == [{"port": ADMIN_PORT, "protocol": "TCP"}]


@pytest.mark.parametrize("typo", ["imgae.tag=1", "image.tga=1", "rbac.nods=true", "replica=2"])
def test_a_typo_in_the_values_is_refused(typo: str) -> None:
    done = template(OPERATOR, f"--set={typo}")
    assert done.returncode != 0 and "not allowed" in done.stderr


@pytest.mark.parametrize("file", ["bookiecluster.yaml", "bookietask.yaml"])
def test_the_chart_holds_the_crds_of_the_models(file: str) -> None:
    ours = (ROOT / "crds" / file).read_text(encoding="utf-8")
    assert (OPERATOR / "files" / file).read_text(encoding="utf-8") == ours, "run `make crds`"


def test_crds_are_kept_and_otherwise_as_they_are() -> None:
    crds = of_kind(render(OPERATOR), "CustomResourceDefinition")
    assert len(crds) == 2
    for crd in crds:
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        source = f"{crd['spec']['names']['singular']}.yaml"
        assert crd["spec"] == yaml.safe_load((ROOT / "crds" / source).read_text())["spec"]


def test_crds_can_be_left_to_others() -> None:
    objects = render(OPERATOR, "--set=crds.enabled=false")
    assert not of_kind(objects, "CustomResourceDefinition")


@pytest.mark.parametrize("right", sorted(USED))
def test_the_operator_may_do_what_it_does(right: tuple[str, str]) -> None:
    assert granted(operator_role(render(OPERATOR)))[right] >= set(USED[right].split())


def test_the_operator_may_do_no_more() -> None:
    rights = granted(operator_role(render(OPERATOR)))
    assert set(rights) == set(USED) | set(USED_CLUSTER_WIDE)
    for right, verbs in rights.items():
        used = (USED | USED_CLUSTER_WIDE)[right].split()
        assert verbs <= {*used, "get"}, f"{right}: found {verbs}, used are {used}"


def test_the_operator_reaches_no_shells() -> None:
    for role in of_kind(render(OPERATOR), "ClusterRole"):
        assert not {resource for _, resource in granted(role)} & {*NEVER, "*"}


def test_of_secrets_it_sees_those_whose_names_it_knows() -> None:
    rights = granted(operator_role(render(OPERATOR)))
    assert not rights[("", "secrets")] & {"list", "watch", "delete", "*"}
    without = granted(operator_role(render(OPERATOR, "--set=rbac.secrets=false")))
    assert ("", "secrets") not in without


def test_cert_manager_is_asked_only_where_a_value_says_so() -> None:
    usual = granted(operator_role(render(OPERATOR)))
    asked = granted(operator_role(render(OPERATOR, "--set=rbac.certManager=true")))
    assert not usual.keys() & OF_CERT_MANAGER.keys()
    assert {one: set(verbs.split()) for one, verbs in OF_CERT_MANAGER.items()}.items() <= (
        asked.items()
    )


def test_the_operators_own_keys_are_in_memory() -> None:
    pod = only(render(OPERATOR), "Deployment")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [mount] = [one for one in container["volumeMounts"] if one["name"] == "credentials"]
    [volume] = [one for one in pod["volumes"] if one["name"] == "credentials"]
    assert volume["emptyDir"]["medium"] == "Memory"
    assert f"--credentials={mount['mountPath']}" in container["args"]


def test_logs_may_be_kept_from_it() -> None:
    rights = granted(operator_role(render(OPERATOR, "--set=rbac.logs=false")))
    assert ("", "pods/log") not in rights


def test_without_nodes_it_reads_no_node_and_writes_no_rack() -> None:
    rights = granted(operator_role(render(OPERATOR, "--set=rbac.nodes=false")))
    assert ("", "nodes") not in rights and "patch" not in rights[("", "pods")]


def test_every_kind_that_the_platform_names_has_rights() -> None:
    kinds = [one for one in vars(api).values() if isinstance(one, api.Kind)]
    of_lease = granted(lease_role(render(OPERATOR)))
    named = {(one.group, one.plural) for one in kinds}
    assert named <= set(USED) | set(USED_CLUSTER_WIDE) | set(OF_CERT_MANAGER) | set(of_lease)


def calls() -> set[tuple[str, str]]:
    """(verb, kind's constant) of each call whose kind stands in the source."""
    sources = (ROOT / "operator/src/bookie_operator/platform/kubernetes").glob("*.py")
    pattern = re.compile(r"api\.(get|list|create|apply|delete)\(\s*([A-Z_]+)")
    return {call for path in sources for call in pattern.findall(path.read_text("utf-8"))}


def test_every_call_of_the_platform_has_rights() -> None:
    objects = render(OPERATOR, "--set=rbac.certManager=true")
    rights = granted(operator_role(objects)) | granted(lease_role(objects))
    assert calls() >= {("delete", "POD"), ("create", "JOB"), ("apply", "STATEFUL_SET")}
    for verb, name in calls():
        kind: api.Kind = getattr(api, name)
        assert {"apply": "patch"}.get(verb, verb) in rights[(kind.group, kind.plural)]


def test_the_operator_has_what_it_grants_to_spark() -> None:
    assert granted(operator_role(render(OPERATOR)))[("", "pods")] >= set(EXECUTOR_VERBS)


def test_named_namespaces_get_roles_of_their_own() -> None:
    objects = render(OPERATOR, "--set=watchNamespaces={one,two}")
    roles = [role for role in of_kind(objects, "Role") if role != lease_role(objects)]
    assert {role["metadata"]["namespace"] for role in roles} == {"one", "two"}
    assert all(set(granted(role)) == set(USED) for role in roles)
    assert set(granted(operator_role(objects))) == set(USED_CLUSTER_WIDE)


def test_the_hint_about_a_missing_right_shows_every_role_of_the_operator() -> None:
    objects = render(OPERATOR, "--set=watchNamespaces={one,two}")
    bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
    mine = [one for one in bindings if one["subjects"][0]["name"] == "demo-bookie-operator"]
    bound = [(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in mine]
    _get, kinds, _by, label, *_ = BY_REASON["Forbidden"][1]
    for role in [one for one in objects if (one["kind"], one["metadata"]["name"]) in bound]:
        assert f"{role['kind'].lower()}s" in kinds.split(",")
        name, value = label.split("=")
        assert role["metadata"]["labels"][name] == value
    assert {kind for kind, _name in bound} == {"Role", "ClusterRole"}


def test_named_namespaces_need_nothing_cluster_wide() -> None:
    words = ("--set=watchNamespaces={one}", "--set=rbac.nodes=false", "--set=rbac.storage=false")
    words += ("--set=rbac.aggregate=false", "--set=decisions.enabled=false")
    words += ("--set=podPolicies.enabled=false",)
    objects = render(OPERATOR, *words)
    names = {role["metadata"]["name"] for role in of_kind(objects, "ClusterRole")}
    assert names == {"ops-demo-bookie-operator-uninstall-check"}


def test_what_issuers_of_the_whole_cluster_take_needs_no_other_right_to_it() -> None:
    off = ("--set=rbac.nodes=false", "--set=rbac.storage=false", "--set=watchNamespaces={one}")
    objects = render(OPERATOR, *off, "--set=rbac.certManager=true")
    [role] = [one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == WHOLE]
    assert granted(role) == {("cert-manager.io", "clusterissuers"): {"get"}}
    assert [one["roleRef"]["name"] for one in of_kind(objects, "ClusterRoleBinding")] == [WHOLE]


def test_named_namespaces_are_the_only_ones_watched() -> None:
    spec = only(render(OPERATOR, "--set=watchNamespaces={one,two}"), "Deployment")["spec"]
    args = spec["template"]["spec"]["containers"][0]["args"]
    assert args[:2] == ["bookie-operator", "run"]
    assert args[-2:] == ["--namespace=one", "--namespace=two"]


def test_several_operators_act_under_one_lease() -> None:
    objects = render(OPERATOR, "--set=replicas=2")
    lease, deployment = only(objects, "Lease"), only(objects, "Deployment")
    assert "spec" not in lease, "nobody holds it, and an upgrade takes it from nobody"
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    metadata = lease["metadata"]
    assert f"--lease={metadata['namespace']}/{metadata['name']}" in container["args"]
    assert deployment["spec"]["replicas"] == 2
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_no_other_lease_may_be_written() -> None:
    objects = render(OPERATOR)
    rules = [(rule.get("resourceNames"), rule["verbs"]) for rule in lease_role(objects)["rules"]]
    assert rules == [
        ([only(objects, "Lease")["metadata"]["name"]], ["get", "patch"]),
        (None, ["create"]),
    ]


@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["defaults", "everything"])
def test_pods_are_restricted(values: tuple[str, ...]) -> None:
    for pod in pods(render(OPERATOR, *values)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ((), "bookie-operator/operator:0.2.0"),
        (("--set=image.repository=r/o", "--set=image.tag=x"), "r/o:x"),
        (
            ("--set=image.tag=x", f"--set=image.digest=sha256:{'a' * 64}"),
            f"bookie-operator/operator@sha256:{'a' * 64}",
        ),
    ],
)
def test_the_image_is_tag_or_digest(values: tuple[str, ...], image: str) -> None:
    images = {c["image"] for pod in pods(render(OPERATOR, *values)) for c in pod["containers"]}
    assert images == {image}


@pytest.mark.parametrize("value", ["nameOverride", "fullnameOverride"])
def test_the_check_before_an_uninstall_can_be_made_whatever_the_release_is_called(
    value: str,
) -> None:
    """A Job's name is a label of its pod."""
    job = only(render(OPERATOR, f"--set={value}={'a' * 63}"), "Job")
    labels = job["spec"]["template"]["metadata"]["labels"].values()
    assert max(map(len, [job["metadata"]["name"], *labels])) <= 63


@pytest.mark.parametrize("name", ["007", "1e3", "no", "null"])
def test_a_namespace_may_be_called_what_yaml_takes_for_something_else(name: str) -> None:
    more = ("--set=metrics.dashboards.enabled=true", "--set=replicas=2")
    where = (f"--namespace={name}", f"--set-string=watchNamespaces={{{name}}}")
    words = ("--kube-version=1.34.0", *EVERYTHING, *more, *where)
    done = helm("template", name, OPERATOR, *words)
    found = [tree["metadata"] for tree in yaml.safe_load_all(done.stdout) if tree]
    assert {one["namespace"] for one in found if "namespace" in one} == {name}
    assert {one["labels"]["app.kubernetes.io/instance"] for one in found} == {name}


@pytest.mark.parametrize("name", ["007", "1e3", "no", "null"])
def test_what_people_name_may_be_what_yaml_takes_for_something_else(name: str) -> None:
    names = (f"--set-string=fullnameOverride={name}", f"--set-string=serviceAccount.name={name}")
    objects = render(OPERATOR, *EVERYTHING, *names)
    assert only(objects, "Deployment")["metadata"]["name"] == name
    assert pods(objects)[0]["serviceAccountName"] == name
    found = [one["metadata"]["name"] for one in objects]
    found += [one["name"] for tree in objects for one in tree.get("subjects", ())]
    assert all(isinstance(one, str) for one in found)


def test_an_uninstall_is_checked_before_anything_goes() -> None:
    job = only(render(OPERATOR), "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["bookie-operator", "uninstall-check"]
    assert job["spec"]["backoffLimit"] == 0


def test_the_check_looks_where_the_operator_does_and_may_look_there() -> None:
    objects = render(OPERATOR, "--set=watchNamespaces={one,two}")
    job = only(objects, "Job")
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][1:] == ["uninstall-check", "--namespace=one", "--namespace=two"]
    role = f"ops-{job['metadata']['name']}"
    bound = [one for one in of_kind(objects, "RoleBinding") if one["roleRef"]["name"] == role]
    assert [one["metadata"]["namespace"] for one in bound] == ["one", "two"]


def test_the_check_may_list_clusters_and_nothing_else() -> None:
    roles = of_kind(render(OPERATOR), "ClusterRole")
    role = next(r for r in roles if r["metadata"]["name"].endswith("-uninstall-check"))
    assert granted(role) == {(GROUP, "bookieclusters"): {"list"}}


def test_nothing_waits_for_readiness_in_a_hook() -> None:
    hooks = {
        tree["metadata"]["annotations"]["helm.sh/hook"]
        for tree in render(OPERATOR, *EVERYTHING)
        if "helm.sh/hook" in tree["metadata"].get("annotations", {})
    }
    assert hooks == {"pre-delete"}


READ: Final = {"get", "list", "watch"}
WRITE: Final = {"create", "update", "patch", "delete", "deletecollection"}
OF_PEOPLE: Final[dict[str, tuple[set[str], dict[str, set[str]]]]] = {
    "view": (
        {"view", "edit", "admin"},
        {
            "bookieclusters": READ,
            "bookieclusters/status": READ,
            "bookieclusters/scale": READ,
            "bookietasks": READ,
            "bookietasks/status": READ,
        },
    ),
    "edit": (
        {"edit", "admin"},
        {
            "bookieclusters": WRITE,
            "bookietasks": WRITE,
            "bookieclusters/scale": {"update", "patch"},
        },
    ),
    # Who may accept a loss does so with a task, and need not have the role edit.
    "decisions": (set(), {"bookietasks": {"create"}, "bookietasks/decision": {"create"}}),
}
"""Role -> those of Kubernetes that include it, and what it lets people do."""


@pytest.mark.parametrize("role", OF_PEOPLE)
def test_people_get_rights_by_the_roles_they_have(role: str) -> None:
    whole = f"ops-demo-bookie-operator-{role}"
    objects = of_kind(render(OPERATOR), "ClusterRole")
    [found] = [one for one in objects if one["metadata"]["name"] == whole]
    labels = found["metadata"]["labels"].items()
    included = {key.partition("/aggregate-to-")[2] for key, value in labels if value == "true"}
    rights = {(GROUP, resource): verbs for resource, verbs in OF_PEOPLE[role][1].items()}
    assert (included, granted(found)) == (OF_PEOPLE[role][0], rights)


MONITORS: Final = {
    "podMonitor": "demo-bookie-operator",
    "bookies": "demo-bookie-operator-bookies",
    "zookeeper": "demo-bookie-operator-zookeeper",
}
"""Values under `metrics`, and the PodMonitor that each makes."""


def monitor(of: str, *values: str) -> Object:
    found = only(render(OPERATOR, f"--set=metrics.{of}.enabled=true", *values), "PodMonitor")
    assert found["metadata"]["name"] == MONITORS[of]
    return found


@pytest.mark.parametrize("of", MONITORS)
def test_a_monitor_has_its_interval_and_labels(of: str) -> None:
    words = (f"--set=metrics.{of}.interval=15s", f"--set=metrics.{of}.labels.release=prom")
    found = monitor(of, *words)
    assert found["metadata"]["labels"]["release"] == "prom"
    [endpoint] = found["spec"]["podMetricsEndpoints"]
    assert (endpoint["interval"], endpoint["path"]) == ("15s", "/metrics")


def test_a_clusters_figures_keep_its_namespace_and_not_the_operators() -> None:
    [endpoint] = monitor("podMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True


@pytest.mark.parametrize("of", MONITORS)
def test_rules_of_ones_own_come_after_those_of_the_chart(of: str) -> None:
    target = {"targetLabel": "site", "replacement": "north"}
    figure = {"sourceLabels": ["__name__"], "regex": "bookie_long_polls", "action": "drop"}
    [usual] = monitor(of)["spec"]["podMetricsEndpoints"]
    [changed] = monitor(
        of,
        f"--set-json=metrics.{of}.relabelings=[{json.dumps(target)}]",
        f"--set-json=metrics.{of}.metricRelabelings=[{json.dumps(figure)}]",
    )["spec"]["podMetricsEndpoints"]
    assert changed["relabelings"] == [*usual.get("relabelings", []), target]
    assert (changed["metricRelabelings"], "metricRelabelings" in usual) == ([figure], False)


def test_a_typo_in_a_rule_of_ones_own_is_refused() -> None:
    word = '--set-json=metrics.zookeeper.relabelings=[{"target_label": "a"}]'
    done = template(OPERATOR, word)
    assert done.returncode != 0 and "not allowed" in done.stderr


@pytest.mark.parametrize(
    ("of", "name"), [("bookies", "demo-bookie-0"), ("zookeeper", "demo-zookeeper")]
)
async def test_a_monitor_finds_the_pods_that_the_operator_makes(of: str, name: str) -> None:
    pod, spec = await made(name), monitor(of)["spec"]
    assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    [container] = pod["spec"]["containers"]
    [endpoint] = spec["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert spec["namespaceSelector"] == {"any": True}


@pytest.mark.parametrize(
    ("of", "name"), [("bookies", "demo-bookie-0"), ("zookeeper", "demo-zookeeper")]
)
async def test_figures_of_a_pod_name_its_cluster_as_alerts_and_dashboards_do(
    of: str, name: str
) -> None:
    """Prometheus finds a pod's labels with all that is no letter or digit made an underscore."""
    labels = {re.sub(r"[^a-zA-Z0-9]", "_", key): value
              for key, value in (await made(name))["metadata"]["labels"].items()}  # fmt: skip
    [endpoint] = monitor(of)["spec"]["podMetricsEndpoints"]
    [rule] = endpoint["relabelings"]
    [source] = rule.pop("sourceLabels")
    assert labels[source.removeprefix("__meta_kubernetes_pod_label_")] == "demo"
    assert rule == {"targetLabel": "cluster"}


@pytest.mark.parametrize("values", [(), ("--set=metrics.bookies.tlsConfig.serverName=demo",)])
def test_bookies_whose_figures_are_under_tls_are_scraped_so(values: tuple[str, ...]) -> None:
    [plain] = monitor("bookies")["spec"]["podMetricsEndpoints"]
    [secure] = monitor("bookies", "--set=metrics.bookies.scheme=https", *values)["spec"][
        "podMetricsEndpoints"
    ]
    expected = {"serverName": "demo"} if values else {"insecureSkipVerify": True}
    assert (plain["scheme"], "tlsConfig" in plain) == ("http", False)
    assert (secure["scheme"], secure["tlsConfig"]) == ("https", expected)


def test_with_named_namespaces_pods_are_found_there() -> None:
    spec = monitor("zookeeper", "--set=watchNamespaces={one,two}")["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["one", "two"]}


def alerts() -> list[dict[str, Any]]:
    rule = only(render(OPERATOR, *EVERYTHING), "PrometheusRule")
    found: list[dict[str, Any]] = rule["spec"]["groups"][0]["rules"]
    return found


def test_alerts_ask_for_figures_that_the_operator_shows() -> None:
    shown = {metric.name for metric in OperatorMetrics().registry.collect()}
    for alert in alerts():
        assert set(re.findall(r"bookie_operator_[a-z_]+", alert["expr"])) <= shown


def test_alerts_ask_for_conditions_that_there_are() -> None:
    asked = {kind for alert in alerts() for kind in re.findall(r'type="(\w+)"', alert["expr"])}
    told = {"PossibleDataLoss", "RepairStalled", "MetadataRolledBack", "CollectionHeld"}
    told |= {
        "CertificatesValid",
        "Degraded",
        "SpaceLow",
        "Available",
        "CookieFixPending",
        "ScaleDownBlocked",
    }
    assert asked == told <= {kind.value for kind in ConditionType}


def test_every_value_is_told_of() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    values = yaml.safe_load((OPERATOR / "values.yaml").read_text(encoding="utf-8"))
    assert not [name for name in values if f"`{name}" not in page]


def test_every_right_is_told_of() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    kinds = {kind for _, kind in USED | USED_CLUSTER_WIDE if not kind.endswith("/status")}
    assert not [kind for kind in kinds if kind not in page]


def test_d12_the_table_of_rights_has_the_verbs_that_are_granted() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z/, ]+) \| ([a-z, ]+) \|", page.partition("## Rights")[2], re.M)
    told = {kind: set(verbs.split(", ")) for kinds, verbs in rows for kind in kinds.split(", ")}
    granted_here = granted(operator_role(render(OPERATOR)))
    for (_group, kind), verbs in granted_here.items():
        if (_group, kind) in USED and not kind.endswith("/status"):
            assert told[kind] == verbs, kind


def test_each_verb_of_the_table_has_the_call_that_needs_it() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    table = page.partition("## Rights")[2].partition("### ")[0]
    rows = re.findall(r"^\| ([a-z/, ]+) \| ([a-z, ]+) \| (.*) \|$", table, re.M)
    assert len(rows) == 18, "with the head of the table"
    for kinds, verbs, calls in rows:
        named = {verb for group in re.findall(r"([a-z, ]+):", calls) for verb in group.split(", ")}
        missing = {verb.strip() for verb in verbs.split(", ")} - {verb.strip() for verb in named}
        assert not missing or kinds in ("status of both", "resource"), f"{kinds}: {missing}"


def test_notes_say_that_all_namespaces_are_for_trying_out() -> None:
    # Their text: helm renders notes for an API server alone.
    notes = (OPERATOR / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    said = notes.partition("{{- if not .Values.watchNamespaces }}")[2]
    assert "In production set watchNamespaces" in said.partition("{{- end }}")[0]


def test_versions_are_those_of_the_distribution() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for path in sorted((ROOT / "charts").glob("*/Chart.yaml")):
        chart = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        assert chart["version"] == chart["appVersion"] == version[1]


def test_every_class_of_findings_has_its_alert() -> None:
    # The template's own text, so that this holds where there is no helm as well.
    text = (OPERATOR / "templates" / "metrics.yaml").read_text(encoding="utf-8")
    asked = re.findall(r'bookie_operator_audit_findings\{class=~?"([a-z_|]+)"\} > 0', text)
    classes = {*OF_ENTRIES, *OF_OTHERS} - {"corrupt"}  # that one is of scrubs: no audit reads
    assert sorted("|".join(asked).split("|")) == sorted(classes)
    assert "expr: bookie_operator_scrub_corrupt_copies > 0" in text


def decisions(*values: str) -> Object:
    [found] = named_policies("decisions", *values)
    return found


def binding_of(policy: Object, *values: str) -> Object:
    bindings = of_kind(render(OPERATOR, *values), "ValidatingAdmissionPolicyBinding")
    name = policy["metadata"]["name"]
    [found] = [one for one in bindings if one["spec"]["policyName"] == name]
    return found


def test_who_decides_about_loss_is_checked_by_the_api_server() -> None:
    policy = decisions()
    spec = policy["spec"]
    [rule] = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["bookietasks"], ["CREATE"])
    assert spec["failurePolicy"] == "Fail" and len(spec["validations"]) == 2
    binding = binding_of(policy)
    assert "matchResources" not in binding["spec"], "everywhere"


def test_who_has_data_deleted_with_a_cluster_is_checked_as_well() -> None:
    [policy] = named_policies("retention")
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE", "UPDATE"], "also later, by hand"
    binding = binding_of(policy)
    [validation] = policy["spec"]["validations"]
    assert "subresource('decision')" in validation["expression"]
    assert "matchResources" not in binding["spec"] and policy["spec"]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("words", ["", "--set=decisions.enabled=false", "--kube-version=1.29.0"])
def test_the_operator_knows_whether_names_are_proved(words: str) -> None:
    objects = render(OPERATOR, *words.split())
    [deployment] = of_kind(objects, "Deployment")
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    proved = [one["value"] for one in env if one["name"] == NAMES_VARIABLE]
    assert proved == ([] if words else ["true"])
    assert bool(named_policies("decisions", *words.split())) is bool(proved)


def test_of_an_operator_of_some_namespaces_it_is_checked_there() -> None:
    some = "--set=watchNamespaces={one,two}"
    for policy in (decisions(some), *named_policies("retention", some)):
        binding = binding_of(policy, some)
        [where] = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (where["key"], where["values"]) == ("kubernetes.io/metadata.name", ["one", "two"])


@pytest.mark.parametrize("values", ["decisions.enabled=false", "rbac.create=false"])
def test_the_role_of_those_who_decide_is_aggregated_to_nobody(values: str) -> None:
    roles = [r for r in of_kind(render(OPERATOR), "ClusterRole") if "decision" in str(r["rules"])]
    [role] = roles
    assert not any("aggregate" in label for label in role["metadata"]["labels"])
    without = of_kind(render(OPERATOR, f"--set={values}"), "ClusterRole")
    assert not [r for r in without if "decision" in str(r["rules"])]


def test_an_api_server_without_such_policies_gets_none() -> None:
    objects = render(OPERATOR, "--kube-version=1.29.0")
    assert not of_kind(objects, "ValidatingAdmissionPolicy")


def test_a_driver_is_held_to_executors_by_the_end_of_its_accounts_name() -> None:
    [policy] = named_policies("executors")
    [condition] = policy["spec"]["matchConditions"]
    pattern = condition["expression"].partition("matches('")[2].removesuffix("')")
    account = "system:serviceaccount:fleet:" + names.driver_account("demo")
    others = ("repair", "bookie", "spark-driver-x")
    assert re.search(pattern, account) is not None
    assert not [one for one in others if re.search(pattern, f"system:serviceaccount:f:demo-{one}")]
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE", "DELETE"])
    assert names.repair_account("") in str(policy["spec"]["validations"])


def test_every_part_of_a_spec_that_adds_to_pods_is_for_those_who_may_make_pods() -> None:
    [policy] = named_policies("overlays")
    schema = ClusterSpec.model_fields
    overlays = {field.alias for field in schema.values() if "PodOverlay" in str(field.annotation)}
    assert {one["name"] for one in policy["spec"]["variables"]} == overlays
    assert len(overlays) == 4


def test_policies_of_pods_can_be_left_out() -> None:
    assert not named_policies("executors", "--set=podPolicies.enabled=false")
    bindings = of_kind(render(OPERATOR), "ValidatingAdmissionPolicyBinding")
    assert len(bindings) == 4


def named_policies(end: str, *values: str) -> list[Object]:
    found = of_kind(render(OPERATOR, *values), "ValidatingAdmissionPolicy")
    return [one for one in found if one["metadata"]["name"].endswith(f"-{end}")]
