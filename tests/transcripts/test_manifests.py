"""Which objects the operator makes for a cluster, each with all its fields."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode, TlsStatus
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import IssueCertificate, LossDecision, MakeAuthority, StartJob
from bookie_operator.platform.kubernetes.api import (
    CLUSTER,
    CSI_DRIVER,
    ISSUER,
    NODE,
    SECRET,
    STORAGE_CLASS,
    Object,
)
from kubernetes_lab import B0, Lab, repair_job
from sasl_client import line
from syrupy.assertion import SnapshotAssertion
from transcripts import Manifests
from whole_spec import BALANCED, ISSUED, SECRETS, WHOLE

OTHERS: Final = (CLUSTER, NODE, STORAGE_CLASS, CSI_DRIVER, ISSUER)
"""Kinds whose objects people make."""
SERVERS: Final = {"uid", "resourceVersion", "creationTimestamp", "generation"}
IMAGES: Final[Object] = {"image": "bookie:1", "repair": {"image": "repair:2"}}
"""Without them each release had other digests of its specs."""
USUAL: Final = "as-it-is"
SPECS: Final[dict[str, Object]] = {
    USUAL: {},
    "without-tls": {"tls": {"mode": "Off"}, "networkPolicies": {"enabled": False}},
    "whole": WHOLE,
    "balanced": {"external": BALANCED, "tls": {"mode": "Accepted"}},
    "of-an-issuer": {"tls": ISSUED, "metadata": {"embedded": {}}},
    "of-another-store": SECRETS,
}
ONE: Final = LossDecision("7", 8, "the disk is gone", "user:ann", is_dry_run=True)
SEVERAL: Final = LossDecision("all", None, "we have it elsewhere", "user:bea")
JOBS: Final = {
    "repair": repair_job("repair"),
    "spark": repair_job("spark", engine="auto", attempt=3, options=("--x=1",)),
    "audit": StartJob("audit", JobKind.AUDIT, "auto", 1),
    "scrub": StartJob("scrub", JobKind.SCRUB, "inline", 1, B0),
    "drain": StartJob("drain", JobKind.DRAIN, "inline", 2, B0),
    "rereplicate": StartJob("rereplicate", JobKind.REREPLICATE, "spark-local", 1, B0),
    "mend": StartJob("mend", JobKind.MEND, "inline", 1),
    "accept": StartJob("accept", JobKind.ACCEPT_LOSS, "", 1, decision=ONE),
    "accept-all": StartJob("accept-all", JobKind.ACCEPT_LOSS, "", 1, decision=SEVERAL),
    "retract": StartJob("retract", JobKind.RETRACT_LOSS, "", 1, decision=ONE),
    "rebuild": StartJob("rebuild", JobKind.INDEX_REBUILD, "", 1, B0, disks=("ledger-0",)),
}


def encoded(**content: bytes) -> dict[str, str]:
    return {key: base64.b64encode(text).decode() for key, text in content.items()}


def surrounded(**spec: Any) -> Lab:
    """What a cluster finds in its namespace and around it."""
    lab = Lab(**IMAGES | spec)
    lab.surround({"topology.kubernetes.io/zone": "north", "example.org/rack": "rack-9"})
    lab.api.put(ISSUER, {"metadata": {"name": "corporate"}})
    users, login = line().encode(), b"scheme: digest\nuser: a\npassword: b\n"
    for name, data in (("stock-users", {"users": users}), ("zk-login", {"credentials": login})):
        lab.api.put(SECRET, {"metadata": {"name": name}, "data": encoded(**data)})
    return lab


async def signed(lab: Lab) -> None:
    """The operator's own authority signs for everybody."""
    year = timedelta(days=365)
    await lab.platform.certificates(lab.cluster, [B0])
    await lab.platform.certify(MakeAuthority(year, frozenset(), signs=True))
    view = await lab.platform.certificates(lab.cluster, [B0])
    assert view.authorities.signing is not None
    by = view.authorities.signing.fingerprint
    for principal, hosts in view.hosts.items():
        await lab.platform.certify(IssueCertificate(principal, hosts, year, by, "it has none"))


async def passed(lab: Lab) -> None:
    """What a pass of the operator makes beside what its plan says."""
    await lab.reach_metadata()
    await lab.platform.bookies()
    await lab.platform.certificates(lab.cluster, [B0])
    await lab.platform.secrets(lab.cluster)
    mode = lab.cluster.spec.tls.mode
    status = ClusterStatus(tls=TlsStatus(mode=mode, clients=mode))
    assert await lab.platform.settle(lab.cluster, status) == {}


async def lived(**spec: Any) -> Lab:
    """A bookie of it runs."""
    lab = surrounded(**spec)
    await passed(lab)
    tls = lab.cluster.spec.tls
    if tls.mode != TlsMode.OFF and tls.issuer is None:
        await signed(lab)
    await lab.run_bookie()
    await passed(lab)
    return lab


def written(lab: Lab, *, without: Sequence[Object] = ()) -> list[Object]:
    """What the operator wrote, without what the API server adds, and what is random in it."""
    uids = {tree["metadata"]["uid"]: name_of(tree) for tree in lab.api.all_but()}
    old = {tree["metadata"]["uid"] for tree in without}
    mine = [tree for tree in lab.api.all_but(*OTHERS) if tree["metadata"].get("labels")]
    return [bare(tree, uids) for tree in mine if tree["metadata"]["uid"] not in old]


def name_of(tree: Object) -> str:
    return f"uid-of-{tree['kind']}-{tree['metadata']['name']}".lower()


def bare(tree: Object, uids: Mapping[str, str]) -> Object:
    """Keys and certificates are random; a pod is what its StatefulSet says, but for annotations."""
    metadata = {name: one for name, one in tree["metadata"].items() if name not in SERVERS}
    left_out = {"status", "spec"} if tree["kind"] == "Pod" else {"status"}
    kept = {name: one for name, one in tree.items() if name not in left_out}
    if tree["kind"] == "Secret":
        kept["data"] = dict.fromkeys(tree.get("data") or (), "(random)")
    text = json.dumps(kept | {"metadata": metadata})
    named: Object = json.loads(re.sub(r"\buid-\d+\b", lambda it: uids.get(it[0], it[0]), text))
    return named


async def objects_of(spec: str) -> list[Object]:
    return written(await lived(**SPECS[spec]))


@pytest.mark.parametrize("spec", SPECS)
async def test_a_cluster(spec: str, snapshot: SnapshotAssertion) -> None:
    """Of the others those objects that the first one does not have just so."""
    usual = await objects_of(USUAL) if spec != USUAL else []
    made = [tree for tree in await objects_of(spec) if tree not in usual]
    assert snapshot(extension_class=Manifests) == made


@pytest.mark.parametrize(("spec", "job"), [
    *((USUAL, job) for job in JOBS),
    *(("whole", job) for job in ("repair", "spark", "drain", "rebuild")),
])  # fmt: skip
async def test_a_job(spec: str, job: str, snapshot: SnapshotAssertion) -> None:
    lab = surrounded(**SPECS[spec])
    await passed(lab)
    before = lab.api.all_but()
    await lab.platform.start_job(JOBS[job])
    assert snapshot(extension_class=Manifests) == written(lab, without=before)
