"""Credentials on Kubernetes: whose Secrets they are, what pods get of them, what cert-manager is
asked for."""

import base64
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role
from bookie_operator.errors import ForbiddenError, LocalError, NameTakenError, PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode, TlsStatus
from bookie_operator.observe import Observer
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import (
    IssueCertificate,
    LossDecision,
    MakeAuthority,
    StartJob,
    WithdrawCertificate,
)
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    CERTIFICATE,
    CLUSTER_ISSUER,
    ISSUER,
    JOB,
    POD,
    SECRET,
    STATEFUL_SET,
    Object,
)
from bookie_operator.platform.kubernetes.credentials import DIRECTORY, secret_name
from bookie_operator.platform.kubernetes.jobs import job_manifest
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform
from bookie_operator.platform.kubernetes.secret_reads import LOOKED_FOR, SecretReads
from cryptography import x509
from fake_controllers import secrets_of
from fake_platform import FakeControl
from kubernetes_lab import B0, Lab, repair_job
from operator_scenes import T0, cluster

B1 = BookieId("bookie-1")
DAY = timedelta(days=1)
FIRST = MakeAuthority(365 * DAY, frozenset(), signs=True)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
REQUIRED = {"mode": "Required"}
ISSUED = REQUIRED | {"issuer": {"name": "corporate"}}


def secure(**more: Any) -> Lab:
    return Lab(tls=REQUIRED, **more)


def status_of(mode: str, clients: str = "") -> ClusterStatus:
    return ClusterStatus(tls=TlsStatus(mode=mode, clients=clients or mode))


def mounts(pod: Object) -> dict[str, str]:
    """Where the first container has which Secret."""
    secrets = {
        one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one
    }
    found = pod["containers"][0]["volumeMounts"]
    return {one["mountPath"]: secrets[one["name"]] for one in found if one["name"] in secrets}


def env(container: Object) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


# Secrets


async def test_an_authority_of_this_name_that_is_somebody_elses_is_left_alone() -> None:
    lab = secure()
    lab.api.put(SECRET, {"metadata": {"name": "demo-ca"}, "data": {"tls.key": "bWluZQ=="}})
    await lab.platform.certificates(lab.cluster, [B0])
    with pytest.raises(NameTakenError, match="Secret demo-ca exists already"):
        await lab.platform.certify(FIRST)
    assert lab.api.the(SECRET, "demo-ca")["data"] == {"tls.key": "bWluZQ=="}


async def test_a_secret_goes_with_its_cluster() -> None:
    lab = secure()
    await lab.platform.certificates(lab.cluster, [B0])
    await lab.platform.certify(FIRST)
    metadata = lab.api.the(SECRET, "demo-ca")["metadata"]
    assert metadata["ownerReferences"][0]["uid"] == lab.cluster.metadata.uid
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "bookie-operator"


async def test_secrets_are_asked_for_by_name_and_not_in_every_pass() -> None:
    lab = secure()
    for _ in range(3):
        await lab.platform.certificates(lab.cluster, [B0, B1])
    asked = [(verb, name) for verb, kind, name in lab.api.calls if kind == "Secret"]
    wanted = ("bookie-0-tls", "bookie-1-tls", "operator-tls", "job-tls", "client-tls", "ca")
    assert asked == [("get", f"demo-{name}") for name in wanted]


async def test_a_right_that_lacks_is_said_and_is_no_end_of_the_pass() -> None:
    lab = secure()
    lab.api.forbid("get", SECRET)
    with pytest.raises(ForbiddenError):
        await lab.platform.certificates(lab.cluster, [B0])
    seen = await Observer(lab.platform, FakeControl()).observe(lab.cluster)
    assert seen.tls is not None and "secrets" in seen.tls.denied


async def test_nothing_is_signed_before_somebody_has_looked() -> None:
    lab = secure()
    with pytest.raises(PreconditionError, match="nobody has looked at certificates yet"):
        await lab.platform.certify(FIRST)
    assert not lab.api.all(SECRET)


async def test_trust_is_relied_on_no_earlier_than_kubelets_have_brought_it() -> None:
    """They renew a mounted Secret within their sync period and their cache's age."""
    lab = secure()
    view = await lab.platform.certificates(lab.cluster, [B0])
    assert view.spreads_within > 2 * timedelta(minutes=1)


async def test_what_cannot_be_decoded_is_no_credential() -> None:
    lab = secure()
    data = {"tls.crt": "%%%", "tls.key": "", "ca.crt": base64.b64encode(b"x").decode()}
    lab.api.put(SECRET, {"metadata": {"name": "demo-job-tls"}, "data": data})
    view = await lab.platform.certificates(lab.cluster, [])
    [job] = [one for one in view.hosts if one.role is Role.JOB]
    assert view.certificates[job].trouble == "it has no tls.crt, tls.key"


async def test_without_a_place_for_it_the_operator_keeps_no_key() -> None:
    lab = secure()
    for _ in range(2):
        await lab.platform.certificates(lab.cluster, [B0])
    assert lab.platform.credentials is None


async def test_credentials_that_could_not_be_put_into_their_folder_are_put_there_later(
    tmp_path: Path,
) -> None:
    lab, in_the_way = secure(), tmp_path / "fleet"
    platform = KubernetesPlatform(
        lab.api, lab.cluster, clock=lambda: lab.api.now, credentials=tmp_path
    )
    view = await platform.certificates(lab.cluster, [])
    await platform.certify(FIRST)
    [own] = [one for one in view.hosts if one.role is Role.OPERATOR]
    signer = (await platform.certificates(lab.cluster, [])).authorities.signing
    assert signer is not None
    await platform.certify(IssueCertificate(own, (), 900 * DAY, signer.fingerprint, "new"))
    in_the_way.write_text("")
    with pytest.raises(LocalError, match="cannot be written"):
        await platform.certificates(lab.cluster, [])
    assert platform.credentials is None
    in_the_way.unlink()
    await platform.certificates(lab.cluster, [])
    assert platform.credentials is not None and (platform.credentials / "tls.key").read_bytes()


@pytest.mark.parametrize(
    ("passed", "is_asked"),
    [
        (timedelta(), False),
        (LOOKED_FOR - timedelta(seconds=1), False),
        (LOOKED_FOR, True),
        (-timedelta(hours=1), True),
    ],
)
async def test_a_secret_is_read_again_after_a_while_and_after_the_clock_went_back(
    passed: timedelta, is_asked: bool
) -> None:
    lab = secure()
    reads = SecretReads(lab.api, lambda: lab.api.now)
    assert await reads.get("demo-ca") is None
    lab.api.put(SECRET, {"metadata": {"name": "demo-ca"}})
    lab.api.now += passed
    assert (await reads.get("demo-ca") is not None) is is_asked
    reads.forget("demo-ca")
    assert await reads.get("demo-ca") is not None


@pytest.mark.parametrize("spoilt", ["tls.crt", "tls.key", "ca.crt"])
async def test_the_operator_keeps_the_credentials_that_work_until_others_do(
    spoilt: str, tmp_path: Path
) -> None:
    lab = secure()
    platform = KubernetesPlatform(
        lab.api, lab.cluster, clock=lambda: lab.api.now, credentials=tmp_path
    )
    view = await platform.certificates(lab.cluster, [])
    await platform.certify(FIRST)
    [own] = [one for one in view.hosts if one.role is Role.OPERATOR]
    signer = (await platform.certificates(lab.cluster, [])).authorities.signing
    assert signer is not None
    await platform.certify(IssueCertificate(own, (), 900 * DAY, signer.fingerprint, "new"))
    await platform.certificates(lab.cluster, [])
    folder = platform.credentials
    assert folder is not None
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    secret = lab.api.the(SECRET, "demo-operator-tls")
    lab.api.put(SECRET, secret | {"data": secret["data"] | {spoilt: "eA=="}})
    lab.api.now += DAY  # whatever was read is read again
    view = await platform.certificates(lab.cluster, [])
    assert view.certificates[own].trouble
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# The certificate of a decision

DECIDED = replace(
    repair_job(kind=JobKind.ACCEPT_LOSS, engine=""), decision=LossDecision("7", 4, "burnt", "ann")
)


async def signed_for_ann(lab: Lab, *, is_proved: bool = True) -> Principal:
    """What her decision's job is to show, signed."""
    lab.platform = KubernetesPlatform(
        lab.api, lab.cluster, clock=lambda: lab.api.now, names_proved=is_proved
    )
    await lab.platform.certificates(lab.cluster, [B0])
    await lab.platform.certify(FIRST)
    view = await lab.platform.certificates(lab.cluster, [B0], ["ann"])
    signing, ann = view.authorities.signing, view.deciding["ann"]
    assert signing is not None
    await lab.platform.certify(IssueCertificate(ann, (), DAY, signing.fingerprint, "a decision"))
    return ann


@pytest.mark.parametrize(
    ("is_proved", "name"), [(True, "ann"), (False, "ann (as written, not proved)")]
)
async def test_the_certificate_of_a_decision_has_the_name_of_who_decided(
    is_proved: bool, name: str
) -> None:
    lab = secure()
    ann = await signed_for_ann(lab, is_proved=is_proved)
    assert (ann.role, ann.name) == (Role.DECISION, name)
    text = base64.b64decode(lab.api.the(SECRET, secret_name("demo", ann))["data"]["tls.crt"])
    sans = x509.load_pem_x509_certificate(text).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert sans.value.get_values_for_type(x509.UniformResourceIdentifier) == [ann.uri]


async def test_the_secret_of_a_decision_is_mounted_into_its_job_alone() -> None:
    ann = await signed_for_ann(secure())
    mine = secret_name("demo", ann)
    for job, wanted in ((replace(DECIDED, shows=ann), mine), (repair_job(), "demo-job-tls")):
        body = job_manifest(
            cluster(), job, metadata_url="zk://z/l", now=T0, clients=TlsMode.REQUIRED
        )
        assert mounts(body["spec"]["template"]["spec"]) == {DIRECTORY: wanted}


async def test_what_was_taken_away_of_a_decision_leaves_no_key() -> None:
    lab = secure()
    ann = await signed_for_ann(lab)
    await lab.platform.certify(WithdrawCertificate(ann, "it is over"))
    found = lab.api.the(SECRET, secret_name("demo", ann))["data"]
    assert found == {"tls.crt": "", "tls.key": "", "ca.crt": ""}
    assert ("delete", "Secret", secret_name("demo", ann)) not in lab.api.calls


def test_secrets_of_decisions_differ_whatever_the_persons_are_called() -> None:
    people = ("ann", "Ann", "system:serviceaccount:fleet:argocd", "ann (as written, not proved)")
    made = {secret_name("demo", Principal("fleet", "demo", Role.DECISION, one)) for one in people}
    assert len(made) == len(people) and all(re.fullmatch(r"[a-z0-9-]{1,63}", one) for one in made)


# Pods


async def test_a_bookie_has_its_own_credentials_and_nobody_elses() -> None:
    lab = secure()
    await lab.run_bookie()
    pod = lab.pod()
    assert pod is not None
    assert mounts(pod["spec"]) == {DIRECTORY: "demo-bookie-0-tls"}
    assert env(pod["spec"]["containers"][0]).items() >= {"BOOKIE_TLS__DIRECTORY": DIRECTORY}.items()
    assert (await lab.process()).tls is TlsMode.REQUIRED


async def test_a_plain_bookie_is_made_as_ever() -> None:
    lab = Lab(tls={"mode": "Off"})
    await lab.run_bookie()
    pod = lab.pod()
    assert pod is not None and "tls" not in json.dumps(pod["spec"])
    assert (await lab.process()).tls is TlsMode.OFF


@pytest.mark.parametrize("written", ["Sometimes", "", "required"])
async def test_what_others_write_into_the_annotation_is_no_mode(written: str) -> None:
    lab = secure()
    await lab.run_bookie()
    key = "bookkeeper.bookie-operator.dev/tls"
    lab.api.edit(
        POD, "demo-bookie-0-0", lambda pod: pod["metadata"]["annotations"].update({key: written})
    )
    assert (await lab.process()).tls is TlsMode.OFF


async def test_on_the_way_a_set_is_kept_as_the_mode_in_force_has_it() -> None:
    lab = secure()
    await lab.reach_metadata()
    await lab.make_volumes()
    spec = lab.cluster.spec
    accepted = spec.model_copy(
        update={"tls": spec.tls.model_copy(update={"mode": TlsMode.ACCEPTED})}
    )
    await lab.platform.start_bookie(lab.template(tls=accepted.tls))
    lab.controllers.settle()
    await lab.platform.bookies()
    before = lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"]
    failed = await lab.platform.settle(lab.cluster, status_of("Accepted"))
    assert not failed and lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"] == before


@pytest.mark.parametrize(
    ("clients", "mode"),
    [(TlsMode.ACCEPTED, {"BOOKIE_TLS__MODE": "Accepted"}), (TlsMode.REQUIRED, {})],
)
def test_jobs_and_executors_talk_as_the_fleet_does(clients: TlsMode, mode: dict[str, str]) -> None:
    job = repair_job(engine="spark-kubernetes")
    body = job_manifest(cluster(), job, metadata_url="zk://z/l", now=T0, clients=clients)
    pod = body["spec"]["template"]["spec"]
    variables = env(pod["containers"][0])
    template = json.loads(variables["REPAIR_EXECUTOR_TEMPLATE"].replace("$$", "$"))
    for one in (pod, template["spec"]):
        assert mounts(one) == {DIRECTORY: "demo-job-tls"}
        asked = env(one["containers"][0])
        found = {name: value for name, value in asked.items() if "TLS" in name}
        assert found == {"BOOKIE_TLS__DIRECTORY": DIRECTORY} | mode


async def test_a_job_of_a_plain_fleet_has_no_credentials() -> None:
    lab = Lab()
    await lab.reach_metadata()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    await lab.platform.start_job(repair_job())
    assert not mounts(lab.api.the(JOB, repair_job().name)["spec"]["template"]["spec"])


async def test_a_job_on_disks_needs_no_network_and_no_credentials() -> None:
    job = StartJob("j", JobKind.INDEX_REBUILD, "", 1, bookie_id=B0, disks=("ledger-0",))
    body = job_manifest(cluster(), job, metadata_url="zk://z/l", now=T0, clients=TlsMode.REQUIRED)
    assert not mounts(body["spec"]["template"]["spec"])


async def test_the_key_of_the_authority_is_mounted_nowhere() -> None:
    lab = secure(metadata={"embedded": {}})
    await lab.run_bookie()
    await lab.platform.settle(lab.cluster, status_of("Required"))
    await lab.platform.start_job(repair_job())
    made = [*lab.api.all(STATEFUL_SET), *lab.api.all(JOB)]
    assert len(made) == 3 and all("demo-ca" not in json.dumps(one) for one in made)


async def test_the_zookeeper_of_a_new_fleet_under_tls_does_not_start_in_plain() -> None:
    lab = secure(metadata={"embedded": {}})
    await lab.reach_metadata()
    pod = lab.api.the(STATEFUL_SET, "demo-zookeeper")["spec"]["template"]["spec"]
    assert mounts(pod) == {DIRECTORY: "demo-zookeeper-tls"}
    assert secrets_of({"spec": pod}) == ["demo-zookeeper-tls"], "it waits for its certificate"
    told = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    assert told["BOOKIE_TLS__DIRECTORY"] == DIRECTORY
    assert (await lab.platform.metadata_url(lab.cluster)).startswith("zks://")


async def test_a_zookeeper_that_was_made_in_plain_stays_so() -> None:
    lab = secure(metadata={"embedded": {}})
    plain = ClusterStatus.model_validate({"metadata": {"url": "zk://z:2181/ledgers"}})
    older = lab.cluster.model_copy(update={"status": plain})
    assert (await lab.platform.metadata_url(older)).startswith("zk://")
    pod = lab.api.the(STATEFUL_SET, "demo-zookeeper")["spec"]["template"]["spec"]
    assert not mounts(pod)


@pytest.mark.parametrize("http", [False, True])
async def test_a_kubelet_asks_the_http_port_as_it_speaks(http: bool) -> None:
    lab = Lab(tls=REQUIRED | {"http": http})
    await lab.run_bookie()
    pod = lab.pod()
    assert pod is not None
    probe = pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]
    assert probe.get("scheme") == ("HTTPS" if http else None)


# cert-manager


class Issued:
    """A cluster that an issuer signs for."""

    def __init__(self, **issuer: Any) -> None:
        self.lab = Lab(tls=REQUIRED | {"issuer": {"name": "corporate"} | issuer})

    async def settle(self, cluster: BookieCluster | None = None) -> dict[str, Any]:
        await self.lab.platform.certificates(self.lab.cluster, [B0])
        status = status_of("Required")
        return dict(await self.lab.platform.settle(cluster or self.lab.cluster, status))

    async def look(self) -> Any:
        self.lab.api.now += timedelta(seconds=31)
        return (await self.lab.platform.certificates(self.lab.cluster, [B0])).issuer

    def certificate(self, holder: str = "bookie-0") -> Object:
        found: Object = self.lab.api.the(CERTIFICATE, f"demo-{holder}-tls")["spec"]
        return found


async def test_cert_manager_is_asked_for_a_certificate_for_everybody() -> None:
    one = Issued(kind="ClusterIssuer")
    assert not await one.settle()
    spec = one.certificate()
    assert spec["issuerRef"]["kind"] == "ClusterIssuer" and spec["duration"] == "2160h0m0s"
    assert spec["uris"] == ["spiffe://bookie-operator/fleet/demo/bookie/bookie-0"]
    assert "demo-bookie-0-0.demo-bookies.fleet.svc" in spec["dnsNames"]
    assert spec["ipAddresses"] == ["127.0.0.1", "::1"] and "server auth" in spec["usages"]
    assert spec["secretName"] == secret_name("demo", Principal("", "", Role.BOOKIE, B0))


async def test_cert_manager_renews_in_time_and_with_a_key_that_nobody_has_seen() -> None:
    """Algorithm and encoding are those of the operator's own authority."""
    one = Issued()
    await one.settle()
    assert one.certificate("job") == {
        "secretName": "demo-job-tls",
        "secretTemplate": {"labels": names.labels("demo", names.TLS)},
        "commonName": "fleet.demo.fleet",
        "duration": "2160h0m0s",
        "renewBefore": "720h0m0s",
        "privateKey": {
            "algorithm": "ECDSA",
            "size": 256,
            "encoding": "PKCS8",
            "rotationPolicy": "Always",
        },
        "usages": ["digital signature", "client auth"],
        "uris": ["spiffe://bookie-operator/fleet/demo/job/job"],
        "issuerRef": {"name": "corporate", "kind": "Issuer", "group": "cert-manager.io"},
    }


async def test_who_only_asks_gets_no_names_and_serves_nobody() -> None:
    one = Issued()
    await one.settle()
    assert not one.certificate("job").keys() & {"dnsNames", "ipAddresses"}
    assert one.certificate("job")["commonName"] == "fleet.demo.fleet", "ZooKeeper knows it so"
    assert one.certificate("client")["commonName"] == "client.demo.fleet"
    assert one.certificate("job")["usages"] == ["digital signature", "client auth"]


async def test_a_bookies_address_outside_is_in_what_is_asked_for() -> None:
    one = Issued()
    await one.lab.run_bookie()
    key = "bookkeeper.bookie-operator.dev/advertised"
    said = {key: "stock=b0.example.org:1 run=192.0.2.7:2"}
    one.lab.api.edit(
        POD, "demo-bookie-0-0", lambda pod: pod["metadata"]["annotations"].update(said)
    )
    await one.lab.platform.bookies()
    await one.settle()
    assert "b0.example.org" in one.certificate()["dnsNames"]
    assert "192.0.2.7" in one.certificate()["ipAddresses"]


@pytest.mark.parametrize(("kind", "known"), [("Issuer", ISSUER), ("ClusterIssuer", CLUSTER_ISSUER)])
async def test_an_issuer_that_is_not_there_or_not_ready_is_named(kind: str, known: Any) -> None:
    one = Issued(kind=kind)
    missing = await one.look()
    assert not missing.is_there and missing.name == f"{kind} corporate"
    one.lab.api.put(known, {"metadata": {"name": "corporate"}})
    assert "says nothing yet" in (await one.look()).trouble
    no = {"type": "Ready", "status": "False", "message": "its secret is gone"}
    one.lab.api.set_status(known, "corporate", conditions=[no])
    assert (await one.look()).trouble == "its secret is gone"
    one.lab.api.set_status(known, "corporate", **READY)
    assert (await one.look()).trouble == ""


async def test_cert_manager_signs_for_a_decision_as_long_as_it_lasts_and_no_longer() -> None:
    one = Issued()
    one.lab.api.put(ISSUER, {"metadata": {"name": "corporate"}, "status": READY})
    view = await one.lab.platform.certificates(one.lab.cluster, [B0], ["ann"])
    ann = view.deciding["ann"]
    name = secret_name("demo", ann)
    held = TlsStatus(mode="Required", clients="Required", decision={"job": "j", "by": "ann"})
    for status, is_asked in ((status_of("Required"), False), (ClusterStatus(tls=held), True)):
        assert not await one.lab.platform.settle(one.lab.cluster, status)
        assert (one.lab.api.find(CERTIFICATE, name) is not None) is is_asked
    spec = one.lab.api.the(CERTIFICATE, name)["spec"]
    assert spec["duration"] == "3h0m0s" and "renewBefore" not in spec and spec["uris"] == [ann.uri]
    signed(one.lab, name, {"tls.key": "c2VjcmV0"})
    await one.lab.platform.certify(WithdrawCertificate(ann, "it is over"))
    assert one.lab.api.find(CERTIFICATE, name) is None
    assert not any(one.lab.api.the(SECRET, name)["data"].values())


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("has_looked", [False, True])
async def test_cert_manager_is_asked_once_all_holders_are_known_and_never_in_a_pause(
    has_looked: bool, paused: bool
) -> None:
    one = Issued()
    platform = one.lab.restarted()
    if has_looked:
        await platform.certificates(one.lab.cluster, [B0])
    spec = one.lab.cluster.spec.model_copy(update={"paused": paused})
    own = one.lab.cluster.model_copy(update={"spec": spec})
    assert not await platform.settle(own, status_of("Required"))
    assert bool(one.lab.api.all(CERTIFICATE)) is (has_looked and not paused)


async def test_what_the_issuer_refuses_is_named() -> None:
    one = Issued()
    one.lab.api.put(ISSUER, {"metadata": {"name": "corporate"}, "status": READY})
    await one.settle()
    for body in one.lab.api.all(CERTIFICATE):
        one.lab.api.set_status(CERTIFICATE, body["metadata"]["name"], **READY)
    no = {"type": "Ready", "status": "False", "message": "URIs are not allowed"}
    one.lab.api.set_status(CERTIFICATE, "demo-bookie-0-tls", conditions=[no])
    assert (await one.look()).refused == {"bookie-0": "URIs are not allowed"}


async def test_without_rights_to_cert_manager_that_is_said() -> None:
    one = Issued()
    one.lab.api.forbid("get", ISSUER)
    assert "cannot get" in (await one.look()).trouble


def without_issuer(own: BookieCluster) -> BookieCluster:
    tls = own.spec.tls.model_copy(update={"issuer": None})
    return own.model_copy(update={"spec": own.spec.model_copy(update={"tls": tls})})


def signed(lab: Lab, secret: str = "demo-job-tls", data: dict[str, str] | None = None) -> None:
    """As cert-manager writes a Secret."""
    annotations = {"cert-manager.io/certificate-name": secret}
    labels = names.labels("demo", names.TLS)
    metadata = {"name": secret, "annotations": annotations, "labels": labels}
    lab.api.put(SECRET, {"metadata": metadata, "data": data or {}})


async def test_certificates_go_before_the_operator_signs_again() -> None:
    one = Issued()
    await one.settle()
    signed(one.lab)
    assert one.lab.api.all(CERTIFICATE)
    own, platform = without_issuer(one.lab.cluster), one.lab.restarted()
    view = await platform.certificates(own, [B0])
    assert not await platform.settle(own, status_of("Required"))
    assert not one.lab.api.all(CERTIFICATE)
    await platform.certify(FIRST)
    [job] = [holder for holder in view.hosts if holder.role is Role.JOB]
    view = await platform.certificates(own, [B0])
    assert view.authorities.signing is not None
    await platform.certify(
        IssueCertificate(job, (), DAY, view.authorities.signing.fingerprint, "its issuer left")
    )
    one.lab.api.forbid("list", CERTIFICATE)
    again = one.lab.restarted()
    await again.certificates(own, [B0])
    assert not await again.settle(own, status_of("Required")), "it asks cert-manager no more"


async def test_who_never_had_an_issuer_asks_cert_manager_nothing() -> None:
    lab = secure()
    lab.api.forbid("list", CERTIFICATE)
    await lab.platform.certificates(lab.cluster, [B0])
    assert not await lab.platform.settle(lab.cluster, status_of("Required"))
