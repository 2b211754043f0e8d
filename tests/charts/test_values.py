"""Every value of the operator's chart has its place in what the chart makes."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from bookie_operator.serve import identity_of
from helm_charts import OPERATOR, Object, of_kind, only, render
from rights import rights_of

FULL: Final = "demo-bookie-operator"
POD: Final = "spec/template/spec"
CONTAINER: Final = f"{POD}/containers/operator"
CHECK: Final = f"{POD}/containers/uninstall-check"
ENDPOINT: Final = "spec/podMetricsEndpoints/0"
PULLED: Final = [{"name": "registry"}]
TOLERATED: Final = [{"key": "storage", "operator": "Exists"}]
APART: Final = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
SIZES: Final = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
TARGET: Final = [{"targetLabel": "region", "replacement": "north"}]
FIGURE: Final = [{"sourceLabels": ["__name__"], "regex": "bookie_long_polls", "action": "drop"}]
PLACES: Final[dict[tuple[str, str], tuple[Any, str]]] = {
    ("image.pullPolicy", "Deployment"): ("Always", f"{CONTAINER}/imagePullPolicy"),
    ("image.pullPolicy", "Job"): ("Always", f"{CHECK}/imagePullPolicy"),
    # Without these a pod comes up nowhere, where nodes or images are not for everybody.
    ("imagePullSecrets", "Deployment"): (PULLED, f"{POD}/imagePullSecrets"),
    ("imagePullSecrets", "Job"): (PULLED, f"{POD}/imagePullSecrets"),
    ("nodeSelector", "Deployment"): ({"disk": "fast"}, f"{POD}/nodeSelector"),
    ("nodeSelector", "Job"): ({"disk": "fast"}, f"{POD}/nodeSelector"),
    ("tolerations", "Deployment"): (TOLERATED, f"{POD}/tolerations"),
    ("tolerations", "Job"): (TOLERATED, f"{POD}/tolerations"),
    ("affinity", "Deployment"): (APART, f"{POD}/affinity"),
    ("priorityClassName", "Deployment"): ("storage", f"{POD}/priorityClassName"),
    ("replicas", "Deployment"): (2, "spec/replicas"),
    ("resources", "Deployment"): (SIZES, f"{CONTAINER}/resources"),
    ("extraArgs", "Deployment"): (["--page-port=0"], f"{CONTAINER}/args"),
    ("extraEnv", "Deployment"): ([{"name": "A", "value": "b"}], f"{CONTAINER}/env"),
    ("podLabels", "Deployment"): ({"team": "pods"}, "spec/template/metadata/labels"),
    ("podAnnotations", "Deployment"): ({"scrape": "yes"}, "spec/template/metadata/annotations"),
    ("serviceAccount.annotations", f"ServiceAccount {FULL}"): (
        {"cloud/role": "fleet"},
        "metadata/annotations",
    ),
    ("metrics.dashboards.labels", "ConfigMap"): ({"board": "1"}, "metadata/labels"),
    ("metrics.dashboards.annotations", "ConfigMap"): ({"folder": "b"}, "metadata/annotations"),
    ("metrics.prometheusRule.labels", "PrometheusRule"): ({"team": "rules"}, "metadata/labels"),
    ("metrics.bookies.scheme", f"PodMonitor {FULL}-bookies"): ("https", f"{ENDPOINT}/scheme"),
    ("metrics.bookies.tlsConfig", f"PodMonitor {FULL}-bookies"): (
        {"serverName": "demo"},
        f"{ENDPOINT}/tlsConfig",
    ),
    **{
        (f"metrics.{of}.{value}", f"PodMonitor {monitor}"): (given, place)
        for of, monitor in (
            ("podMonitor", FULL),
            ("bookies", f"{FULL}-bookies"),
            ("zookeeper", f"{FULL}-zookeeper"),
        )
        for value, given, place in (
            ("interval", f"{len(of)}s", f"{ENDPOINT}/interval"),
            ("labels", {"of": of}, "metadata/labels"),
            ("relabelings", TARGET, f"{ENDPOINT}/relabelings"),
            ("metricRelabelings", FIGURE, f"{ENDPOINT}/metricRelabelings"),
        )
    },
}
"""Value, and kind (and name) of the objects that it is for -> what it is here, and its place."""
LIMITS: Final[dict[str, tuple[str | float, dict[str, int]]]] = {
    "limboOldAfter": ("41m", {"BookieLimboOld": 2}),
    "limboStillFor": ("42m", {"BookieLimboNotFalling": 3}),
    "findingsOldAfter": (
        "43m",
        {
            "BookieCopiesMissing": 2,
            "BookieCopiesUnknown": 2,
            "BookieUnderreplicatedOld": 2,
            "BookieLedgersMisplaced": 1,
            "BookieLedgersLowAckQuorum": 1,
        },
    ),
    "passOldAfterSeconds": (441, {"BookieOperatorPassOld": 2}),
    "auditOldAfterSeconds": (451, {"BookieAuditOld": 2}),
    "certificateExpiresWithinSeconds": (461, {"BookieCertificateExpires": 1}),
    "syncSlowAfterSeconds": (0.471, {"BookieSyncSlow": 1}),
    "zookeeperSyncSlowAfterSeconds": (0.481, {"BookieZooKeeperSyncSlow": 1}),
    "zookeeperOutstandingMax": (491, {"BookieZooKeeperOverloaded": 1}),
}
"""Value of the rules -> what it is here, and how often each alert says it."""
ELSEWHERE: Final = {
    "image.repository",
    "image.tag",
    "image.digest",
    "watchNamespaces",
    "serviceAccount.name",
    "metrics.prometheusRule.runbookUrl",
    "networkPolicy.metricsFrom",
    "networkPolicy.apiServerPorts",
    "networkPolicy.metadataPorts",
    "nameOverride",
    "fullnameOverride",
}
"""Values that say more than one word of a manifest: tests of their own judge them."""
DEFAULTS: Final[Object] = yaml.safe_load((OPERATOR / "values.yaml").read_text(encoding="utf-8"))


def leaves(tree: Object, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        own = f"{path}{name}"
        if isinstance(value, dict) and value and own not in {one for one, _ in PLACES}:
            yield from leaves(value, f"{own}.")
        else:
            yield own, value


SWITCHES: Final = {name: value for name, value in leaves(DEFAULTS) if isinstance(value, bool)}
ON: Final = tuple(f"--set={name}=true" for name in SWITCHES)


def at(tree: Any, place: str) -> Any:
    """What lies there. Items of lists have a number or the name that they give themselves."""
    for part in place.split("/"):
        if isinstance(tree, list):
            named = {item["name"]: item for item in tree if "name" in item}
            tree = tree[int(part)] if part.isdigit() else named[part]
        else:
            tree = tree[part]
    return tree


def chosen(objects: list[Object], which: str) -> list[Object]:
    kind, _, name = which.partition(" ")
    return [one for one in of_kind(objects, kind) if name in ("", one["metadata"]["name"])]


def with_everything() -> list[Object]:
    given = {name: value for (name, _which), (value, _place) in PLACES.items()}
    given |= {f"metrics.prometheusRule.{name}": value for name, (value, _) in LIMITS.items()}
    return render(OPERATOR, *ON, *(f"--set-json={k}={json.dumps(v)}" for k, v in given.items()))


def operators_pod(objects: list[Object]) -> tuple[Object, Object]:
    """Its template and its only container."""
    template: Object = only(objects, "Deployment")["spec"]["template"]
    [container] = template["spec"]["containers"]
    return template, container


@pytest.mark.parametrize(("value", "which"), PLACES)
def test_what_a_value_says_stands_in_its_place(value: str, which: str) -> None:
    given, place = PLACES[value, which]
    objects = chosen(with_everything(), which)
    assert objects
    for found in (at(one, place) for one in objects):
        if isinstance(given, dict):
            assert given.items() <= found.items()
        else:
            assert (found[-len(given) :] if isinstance(given, list) else found) == given


def test_arguments_that_values_add_are_the_last_ones() -> None:
    _template, container = operators_pod(with_everything())
    assert container["args"][-2:] == ["--verbose", *PLACES["extraArgs", "Deployment"][0]]


@pytest.mark.parametrize("value", LIMITS)
def test_an_alert_has_the_limits_of_its_values(value: str) -> None:
    given, counts = LIMITS[value]
    [group] = only(with_everything(), "PrometheusRule")["spec"]["groups"]
    found = {rule["alert"]: str(rule).count(str(given)) for rule in group["rules"]}
    assert {alert: count for alert, count in found.items() if count} == counts


@pytest.mark.parametrize("value", SWITCHES)
def test_every_switch_switches_something(value: str) -> None:
    assert render(OPERATOR, *ON) != render(OPERATOR, *ON, f"--set={value}=false")


def test_every_value_is_tried_with_something_else_than_its_default() -> None:
    places = {name: given for (name, _which), (given, _place) in PLACES.items()}
    limits = {f"metrics.prometheusRule.{name}": given for name, (given, _) in LIMITS.items()}
    tried = places | limits | {name: not value for name, value in SWITCHES.items()}
    known = dict(leaves(DEFAULTS))
    assert tried.keys() | ELSEWHERE == known.keys() and not tried.keys() & ELSEWHERE
    assert not [name for name, given in tried.items() if given == known[name]]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("nameOverride=other", "demo-other"),
        ("nameOverride=de", "demo"),
        ("fullnameOverride=other", "other"),
    ],
)
def test_objects_are_called_as_values_say(words: str, name: str) -> None:
    objects = render(OPERATOR, *ON, "--set=crds.enabled=false", f"--set={words}")
    for found in (one["metadata"]["name"] for one in objects):
        assert f"{found}-".removeprefix("ops-").startswith(f"{name}-")


@pytest.mark.parametrize("rbac", [True, False])
@pytest.mark.parametrize(
    ("words", "account", "made"),
    [
        ("", FULL, {FULL}),
        ("name=own", "own", {"own"}),
        ("create=false", "default", set()),
        ("create=false,name=own", "own", set()),
    ],
)
def test_pods_have_accounts_that_there_are_and_that_have_rights(
    words: str, account: str, made: set[str], rbac: bool
) -> None:
    given = (f"--set=serviceAccount.{word}" for word in words.split(",") if word)
    objects = render(OPERATOR, *given, f"--set=rbac.create={json.dumps(rbac)}")
    check = f"{FULL}-uninstall-check" if rbac else account
    for kind, own in (("Deployment", account), ("Job", check)):
        spec = only(objects, kind)["spec"]["template"]["spec"]
        assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == (own, True)
        assert bool(rights_of(objects, own, "ops")) is rbac
    accounts = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
    assert accounts == made | ({check} if rbac else set())


def test_who_holds_the_lease_is_called_like_its_pod() -> None:
    """A node or a namespace has several operators, and each must know whether it is the holder."""
    _template, container = operators_pod(render(OPERATOR))
    pod = {"metadata": {"name": "operator-1", "namespace": "ops"}, "spec": {"nodeName": "node"}}
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]
              if "valueFrom" in one}  # fmt: skip
    environ = {name: at(pod, field.replace(".", "/")) for name, field in fields.items()}
    assert identity_of(environ) == "operator-1"


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_a_probe_asks_whether_the_loops_of_clusters_come_back(probe: str) -> None:
    """Of /healthz, that is: /metrics has an answer while they hang, too."""
    _template, container = operators_pod(render(OPERATOR))
    assert container[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}


@pytest.mark.parametrize(
    ("which", "place"),
    [
        ("Service", "spec/ports/0/targetPort"),
        (f"PodMonitor {FULL}", f"{ENDPOINT}/port"),
        ("NetworkPolicy", "spec/ingress/0/ports/0/port"),
    ],
)
def test_who_asks_the_operators_pod_by_a_ports_name_names_one_that_it_has(
    which: str, place: str
) -> None:
    _template, container = operators_pod(with_everything())
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    [asking] = chosen(with_everything(), which)
    args = container["args"]
    assert ports[at(asking, place)] == args[args.index("--port") + 1]


@pytest.mark.parametrize(
    ("which", "place"),
    [
        ("Deployment", "spec/selector/matchLabels"),
        ("Service", "spec/selector"),
        (f"PodMonitor {FULL}", "spec/selector/matchLabels"),
        ("NetworkPolicy", "spec/podSelector/matchLabels"),
        ("PodDisruptionBudget", "spec/selector/matchLabels"),
    ],
)
def test_a_selector_finds_the_operators_pod_and_not_the_check_before_an_uninstall(
    which: str, place: str
) -> None:
    objects = with_everything()
    [selecting] = chosen(objects, which)
    template, _container = operators_pod(objects)
    wanted = at(selecting, place).items()
    assert wanted <= template["metadata"]["labels"].items()
    assert not wanted <= at(only(objects, "Job"), "spec/template/metadata/labels").items()
