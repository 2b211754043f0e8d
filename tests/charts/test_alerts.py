"""The chart's alerts, by Prometheus's own tool: each fires for its fault, none when all is well."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml
from bookie.repair.reports.classes import OF_ENTRIES, OF_OTHERS
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.condition_types import ConditionType
from helm_charts import ALERTS, OPERATOR, ROOT, alert_rules, only, render

RUNBOOKS: Final = ROOT / "docs" / "runbooks"
OF: Final = '{namespace="ns",cluster="demo"'
POD: Final = OF + ',pod="demo-bookie-0"'
BOOKIE_UP: Final = 'up{job="ops/demo-bookie-operator-bookies",namespace="ns",pod="demo-bookie-0"}'
KEEPER: Final = f'{{job="ops/demo-bookie-operator-zookeeper",{OF[1:]},pod="demo-zookeeper-0"}}'
CREATED: Final = f"bookie_operator_cluster_created_timestamp_seconds{OF}}}"
LAST_PASS: Final = f"bookie_operator_last_pass_timestamp_seconds{OF}}}"
AUDITED: Final = f"bookie_operator_audit_timestamp_seconds{OF}}}"
TRUE_AT_REST: Final = frozenset(
    {
        *(ConditionType.READY, ConditionType.AVAILABLE, ConditionType.DURABILITY_VERIFIED),
        *(ConditionType.CERTIFICATES_VALID, ConditionType.TLS_IN_FORCE),
    }
)
AT_REST: Final = {
    "bookie_operator_leads": ["1x200"],
    "bookie_operator_limbo_ledgers": ["0x200"],
    "bookie_operator_unchecked_ledgers": ["0x200"],
    "bookie_operator_cluster_created_timestamp_seconds": ["-9000000x200"],
    "bookie_operator_last_pass_timestamp_seconds": ["0+60x200"],
    "bookie_operator_audit_timestamp_seconds": ["0+60x200"],
    "bookie_operator_certificate_expiry_timestamp_seconds": [',certificate="bookie-0" 9000000x200'],
    "bookie_operator_passes": [',result="done" 0+4x200', ',result="failed" 3x200'],
    "bookie_operator_actions": [',type="StartJob" 1x200'],
    "bookie_operator_refusals": [',predicate="Paused" 0x200'],
    "bookie_operator_condition": [
        f',type="{kind}" {int(kind in TRUE_AT_REST)}x200' for kind in ConditionType
    ],
    "bookie_operator_audit_findings": [
        f',class="{name}" 0x200' for name in (*OF_ENTRIES, *OF_OTHERS)
    ],
    "bookie_operator_scrub_corrupt_copies": ["0x200"],
    "bookie_operator_audit_entries": [f',class="{name}" 0x200' for name in OF_ENTRIES],
}
"""Each figure of the operator: labels beside the cluster's, and values minute by minute."""


def operator_at_rest() -> dict[str, str]:
    """The operator's figures of a cluster at rest, under the names and labels that they have."""
    found: dict[str, str] = {}
    for metric in OperatorMetrics().registry.collect():
        suffix = "_total" if metric.type == "counter" else ""
        for one in AT_REST[metric.name]:
            labels, _space, values = one.rpartition(" ")
            where = "" if metric.name == "bookie_operator_leads" else f"{OF}{labels}}}"
            found[f"{metric.name}{suffix}{where}"] = values
    return found


WELL: Final = operator_at_rest() | {
    BOOKIE_UP: "1x200",
    f"up{KEEPER}": "1x200",
    f"outstanding_requests{KEEPER}": "3x200",
    f"fsynctime_sum{KEEPER}": "0+200x200",
    f"fsynctime_count{KEEPER}": "0+100x200",
    f"bookie_leased{POD}}}": "1x200",
    f"bookie_writable{POD}}}": "1x200",
    f"bookie_ready{POD}}}": "1x200",
    f"bookie_boot_epoch{POD}}}": "1x200",
    f"bookie_boot_clean{POD}}}": "1x200",
    f'bookie_free_bytes{POD},directory="/d"}}': "1000000x200",
    f'bookie_sync_seconds_bucket{POD},stream="log",directory="/d",le="0.01"}}': "0+100x200",
    f'bookie_sync_seconds_bucket{POD},stream="log",directory="/d",le="+Inf"}}': "0+100x200",
}
"""A cluster at rest for more than three hours: every condition, every class, every figure."""


def condition(kind: str, value: int = 1) -> dict[str, str]:
    return {f'bookie_operator_condition{OF},type="{kind}"}}': f"{value}x200"}


def found(kind: str) -> dict[str, str]:
    return {f'bookie_operator_audit_findings{OF},class="{kind}"}}': "2x200"}


SICK: Final[dict[str, dict[str, str]]] = {
    "BookieLimboOld": {f"bookie_operator_limbo_ledgers{OF}}}": "5-0.1x30 2x170"},
    "BookieLimboNotFalling": {f"bookie_operator_limbo_ledgers{OF}}}": "5x200"},
    "BookiePossibleDataLoss": condition("PossibleDataLoss"),
    "BookieRepairStalled": condition("RepairStalled"),
    "BookieMetadataRolledBack": condition("MetadataRolledBack"),
    "BookieCollectionHeld": condition("CollectionHeld"),
    "BookieSpaceLow": condition("SpaceLow"),
    "BookieCertificatesInvalid": condition("CertificatesValid", 0),
    "BookieCertificateExpires": {
        f'bookie_operator_certificate_expiry_timestamp_seconds{OF},certificate="job"}}': (
            "500000x200"
        )
    },
    "BookieEntriesWithoutCopy": found("no_copy"),
    "BookieEntriesBelowAckQuorum": found("below_ack_quorum"),
    "BookieCopiesMissing": found("missing"),
    "BookieCopiesCorrupt": {f"bookie_operator_scrub_corrupt_copies{OF}}}": "2x200"},
    "BookieCopiesUnknown": found("unknown"),
    "BookieSilent": found("silent_bookie"),
    "BookieMetadataUnreadable": found("metadata_unreadable"),
    "BookieUnderreplicatedOld": found("underreplicated"),
    "BookieLedgersMisplaced": found("placement_strict"),
    "BookieLedgersLowAckQuorum": found("low_ack_quorum"),
    "BookieClusterDegraded": condition("Degraded"),
    "BookieClusterUnavailable": condition("Available", 0),
    "BookieCookieFixPending": condition("CookieFixPending"),
    "BookieScaleDownBlocked": condition("ScaleDownBlocked"),
    "BookieAuditOld": {AUDITED: "-2000000x200"},
    "BookieOperatorDown": {"bookie_operator_leads": "0x200"},
    "BookieOperatorPassOld": {LAST_PASS: "0x200"},
    "BookieUnreachable": {BOOKIE_UP: "0x200"},
    "BookieNotConfirmed": {f"bookie_leased{POD}}}": "0x200"},
    "BookieReadOnly": {f"bookie_writable{POD}}}": "0x200"},
    "BookieDiskFullSoon": {f'bookie_free_bytes{POD},directory="/d"}}': "1000000-2000x200"},
    "BookieSyncSlow": {
        f'bookie_sync_seconds_bucket{POD},stream="log",directory="/d",le="0.01"}}': "0+10x200",
        f'bookie_sync_seconds_bucket{POD},stream="log",directory="/d",le="2.0"}}': "0+100x200",
    },
    "BookieRestartsUncleanly": {
        f"bookie_boot_epoch{POD}}}": "1+0.1x200",
        f"bookie_boot_clean{POD}}}": "0x200",
    },
    "BookieZooKeeperUnreachable": {f"up{KEEPER}": "0x200"},
    "BookieZooKeeperOverloaded": {f"outstanding_requests{KEEPER}": "101x200"},
    "BookieZooKeeperSyncSlow": {f"fsynctime_sum{KEEPER}": "0+10100x200"},
}
"""What differs where the fault of that alert is, and has been for long enough."""


@pytest.fixture(scope="module")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not on PATH: Debian has it in the package prometheus")
    return path


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "bookies", "rules": alert_rules()}]}))
    return file


def judged(promtool: str, rule_file: Path, series: dict[str, str], expected: list[str]) -> None:
    """`expected`: what fires at the end of two hours."""
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": "2h", "exp_samples": samples}],
    }
    file = rule_file.with_name("test.yaml")
    whole = {"rule_files": [rule_file.name], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(yaml.safe_dump(whole))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_such_that_prometheus_takes_them(promtool: str, rule_file: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", str(rule_file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_fires_when_all_is_well(promtool: str, rule_file: Path) -> None:
    judged(promtool, rule_file, WELL, [])


ALSO: Final = {
    "BookieLimboNotFalling": ["BookieLimboOld"],
    "BookieLimboOld": ["BookieLimboNotFalling"],
}
"""Faults for which another alert fires as well."""


@pytest.mark.parametrize("alert", sorted(SICK))
def test_each_fires_for_its_fault_and_no_other(promtool: str, rule_file: Path, alert: str) -> None:
    judged(promtool, rule_file, WELL | SICK[alert], [alert, *ALSO.get(alert, ())])


@pytest.mark.parametrize(
    ("missing", "alert"), [(LAST_PASS, "BookieOperatorPassOld"), (AUDITED, "BookieAuditOld")]
)
def test_what_never_was_fires_by_the_age_of_the_cluster(
    promtool: str, rule_file: Path, missing: str, alert: str
) -> None:
    rest = {name: values for name, values in WELL.items() if name != missing}
    judged(promtool, rule_file, rest, [alert])
    judged(promtool, rule_file, rest | {CREATED: "7100x200"}, [])


@pytest.mark.parametrize(("ready", "fires"), [("1x200", ["BookieReadOnly"]), ("0x200", [])])
def test_who_boots_or_waits_for_consent_is_not_read_only(
    promtool: str, rule_file: Path, ready: str, fires: list[str]
) -> None:
    silent = {f"bookie_writable{POD}}}": "0x200", f"bookie_ready{POD}}}": ready}
    judged(promtool, rule_file, WELL | silent, fires)


@pytest.mark.parametrize("slow", ["journal", "log"])
def test_a_slow_disk_hides_behind_no_fast_one_of_its_pod(
    promtool: str, rule_file: Path, slow: str
) -> None:
    series = {name: values for name, values in WELL.items() if "bookie_sync_" not in name}
    for stream in ("journal", "log"):
        in_time = "0+10x200" if stream == slow else "0+99990x200"
        of = f'bookie_sync_seconds_bucket{POD},stream="{stream}",directory="/{stream}"'
        series[f'{of},le="0.01"}}'] = in_time
        for le in ("2.0", "+Inf"):
            series[f'{of},le="{le}"}}'] = "0+100x200" if stream == slow else in_time
    judged(promtool, rule_file, series, ["BookieSyncSlow"])


def test_a_pod_that_was_made_again_is_the_same_bookie(promtool: str, rule_file: Path) -> None:
    series = {name: values for name, values in WELL.items() if "bookie_boot_" not in name}
    for epoch in range(1, 5):  # each at another address, for ten minutes
        before, after = 80 + 10 * epoch, 9 if epoch < 4 else 60
        of = f'{POD},instance="10.0.0.{epoch}:8080"}}'
        series[f"bookie_boot_epoch{of}"] = f"_x{before} {epoch}x{after} stale"
        series[f"bookie_boot_clean{of}"] = f"_x{before} 0x{after} stale"
    judged(promtool, rule_file, series, ["BookieRestartsUncleanly"])


def test_a_zookeeper_at_rest_syncs_nothing_and_is_not_slow(promtool: str, rule_file: Path) -> None:
    still = {f"fsynctime_sum{KEEPER}": "500x200", f"fsynctime_count{KEEPER}": "1x200"}
    judged(promtool, rule_file, WELL | still, [])


def test_another_server_with_figures_of_these_names_rings_no_bell(
    promtool: str, rule_file: Path
) -> None:
    foreign = {'outstanding_requests{job="proxy"}': "9999x200", 'up{job="proxy"}': "0x200"}
    judged(promtool, rule_file, WELL | foreign, [])


UNKNOWN_NOW: Final = {
    "MetadataRolledBack": "BookieMetadataRolledBack",
    "CollectionHeld": "BookieCollectionHeld",
    "SpaceLow": "BookieSpaceLow",
}
"""Conditions that go from True to Unknown when bookies fall silent, and their alerts."""


@pytest.mark.parametrize(("kind", "alert"), sorted(UNKNOWN_NOW.items()))
def test_silence_of_bookies_ends_no_alarm_and_raises_none(
    promtool: str, rule_file: Path, kind: str, alert: str
) -> None:
    [name] = condition(kind)
    judged(promtool, rule_file, WELL | {name: "1x60 -1x100"}, [alert])
    judged(promtool, rule_file, WELL | {name: "1x60 -1x30 0x100"}, [])
    judged(promtool, rule_file, WELL | {name: "1x60 stale"}, [])
    judged(promtool, rule_file, WELL | {name: "0x60 -1x100"}, [])


def test_another_pod_of_the_operator_goes_on_with_an_alarm(promtool: str, rule_file: Path) -> None:
    [name] = condition("SpaceLow")
    first, second = (name.replace("}", f',pod="{pod}"}}') for pod in "ab")
    rest = {one: values for one, values in WELL.items() if one != name}
    judged(
        promtool, rule_file, rest | {first: "1x60 stale", second: "_x61 -1x90"}, ["BookieSpaceLow"]
    )
    judged(promtool, rule_file, rest | {first: "1x60 stale", second: "_x61 0x90"}, [])


def test_certificates_of_which_nobody_knows_are_an_alarm(promtool: str, rule_file: Path) -> None:
    series = WELL | condition("CertificatesValid", -1)
    judged(promtool, rule_file, series, ["BookieCertificatesInvalid"])


def test_every_alert_is_tried_and_has_a_page() -> None:
    names = sorted(rule["alert"] for rule in alert_rules())
    assert names == sorted(SICK)
    assert names == sorted(page.stem for page in RUNBOOKS.glob("Bookie*.md"))


def test_every_alert_says_how_bad_it_is_and_where_to_read_on() -> None:
    for rule in alert_rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        found = rule["annotations"]
        assert found["summary"] and found["description"]
        assert found["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"


def test_the_address_of_the_pages_is_a_value() -> None:
    asked = (*ALERTS, "--set=metrics.prometheusRule.runbookUrl=https://wiki.example/bookies")
    [group] = only(render(OPERATOR, *asked), "PrometheusRule")["spec"]["groups"]
    rule = group["rules"][0]
    url = f"https://wiki.example/bookies/{rule['alert']}.md"
    assert rule["annotations"]["runbook_url"] == url


def test_the_list_of_pages_has_each_once() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text(), re.M)
    assert listed == [(page.stem, page.stem) for page in sorted(RUNBOOKS.glob("Bookie*.md"))]
