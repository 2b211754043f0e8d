"""What is written for a bookie to run with, byte by byte, on both platforms.

A pod's settings are named by their content, and the revision decides restarts: whoever changes one
byte of a golden file restarts every such bookie at the next upgrade of the operator.
`UPDATE_GOLDEN=1 pytest` writes the files of new cases; a new option of the spec gets a new case.
"""

import os
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from bookie.ids import BookieId
from bookie.server.settings import parse_settings
from bookie_operator.model.bookie_options import BookieOptions
from bookie_operator.observed import Volume
from bookie_operator.plan.actions import BookieTemplate, template_of
from bookie_operator.platform.bookie_settings import SECTIONS
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.kubelet import process_settings
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.bookies import pod_settings
from operator_scenes import cluster
from pydantic.alias_generators import to_camel

IMAGE: Final = "bookie-operator/bookie:0.1.0"
"""The default when the files were written."""
GOLDEN: Final = Path(__file__).parent / "golden"
B0: Final = BookieId("bookie-0")
URL: Final = "zk://zk:2181/ledgers"
PLAIN: Final = {"tls": {"mode": "Off"}}
CASES: Final[dict[str, dict[str, Any]]] = {
    "default": PLAIN,
    "tls": {},
    "seven-options": PLAIN
    | {
        "journalWriteData": True,
        "ack": "sync",
        "flushIntervalSeconds": 2.5,
        "compactionBytesPerSecondBusy": 2**20,
        "recoveryBytesPerSecondBusy": 2**21,
        "collectGraceSeconds": 60,
        "collectShareMax": 0.5,
        "cookieFix": {"policy": "Approve"},
    },
    "journal": PLAIN | {"journalWriteData": True},
    "sync": PLAIN | {"ack": "sync", "flushIntervalSeconds": 10},
    "never-takes-a-disk": PLAIN | {"cookieFix": {"policy": "Never"}},
    "only-compaction": PLAIN | {"compactionBytesPerSecondBusy": 2**20},
    "only-recovery": PLAIN | {"recoveryBytesPerSecondBusy": 2**21},
    "only-grace": PLAIN | {"collectGraceSeconds": 60},
    "only-share": PLAIN | {"collectShareMax": 1},
    "only-notes": PLAIN | {"noteIdleFlushes": 5},
    "no-notes": PLAIN | {"noteIdleFlushes": 0},
    "recovery-and-share": PLAIN | {"recoveryBytesPerSecondBusy": 2**21, "collectShareMax": 0.25},
    "journal-last": PLAIN
    | {
        "storage": {
            "disks": [
                {"name": "b", "role": "ledger", "size": "5Gi", "storageClass": "fast"},
                {"name": "a", "role": "ledger"},
                {"name": "wal", "role": "journal", "size": "1Gi"},
            ]
        }
    },
    "pods": PLAIN
    | {
        "image": "registry/bookie:7",
        "imagePullPolicy": "Always",
        "imagePullSecrets": ["registry"],
        "resources": {"limits": {"memory": "2Gi"}},
        "scheduling": {"required": True, "nodeSelector": {"disk": "nvme"}},
        "gracePeriodSeconds": 120,
    },
}

OPTIONS: Final = {to_camel(name) for name in BookieOptions.model_fields}


def volumes_of(template: BookieTemplate) -> dict[str, Volume]:
    return {disk.name: Volume(disk.name, f"{disk.name}-uid") for disk in template.disks}


def pod_text(template: BookieTemplate) -> str:
    return pod_settings(template, volumes_of(template), URL)


def process_text(template: BookieTemplate) -> str:
    folders = LocalFolders(Path("/fleet"))
    return process_settings(template, volumes_of(template), folders=folders, metadata_url=URL)


def golden(case: str, written: str) -> str:
    path = GOLDEN / f"{case}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(written, encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_an_upgrade_of_the_operator_writes_what_the_version_before_wrote(case: str) -> None:
    # A cluster keeps the image that it was made with: a later default is not its own.
    template = template_of(cluster(**({"image": IMAGE} | CASES[case])).spec, B0)
    pod, process = pod_text(template), process_text(template)
    revision = f"revision {template.revision}\n"
    named = f"--- Kubernetes, {names.settings_name('demo', B0, pod)}\n"
    text = f"{revision}{named}{pod}--- local\n{process}"
    assert text == golden(case, text)


@pytest.mark.parametrize("case", CASES)
def test_a_bookie_runs_with_the_options_of_the_spec(case: str) -> None:
    template = template_of(cluster(**CASES[case]).spec, B0)
    given = {name: value for name, value in CASES[case].items() if name in OPTIONS}
    if given.get("noteIdleFlushes") == 0:
        given["noteIdleFlushes"] = None  # a bookie keeps no notes
    for text in (pod_text(template), process_text(template)):
        settings = parse_settings(yaml.safe_load(text), source=case).model_dump(by_alias=True)
        found = {name: settings[place][name] for place, names in SECTIONS.items() for name in names}
        assert given.items() <= found.items()


def test_every_option_has_one_section_and_a_case() -> None:
    placed = [name for names in SECTIONS.values() for name in names]
    assert sorted(placed) == sorted(OPTIONS)
    assert {name for spec in CASES.values() for name in spec} >= OPTIONS
