"""Secrets that a spec names: what is wrong with them, and how pods and the operator get them."""

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bookie_operator.errors import LocalError
from bookie_operator.local.environment import exports
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.kubernetes.api import JOB, SECRET, Object
from bookie_operator.platform.kubernetes.jobs import job_manifest
from bookie_operator.platform.kubernetes.named_secrets import LOGINS
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform
from bookie_operator.platform.kubernetes.secret_reads import SecretReads
from bookie_operator.platform.local import LocalPlatform
from bookie_operator.platform.named_secrets import judged, wanted_secrets
from fake_api import FakeApi
from kubernetes_lab import B0, Lab, repair_job
from operator_scenes import T0, cluster
from sasl_client import line

ASKS: dict[str, Any] = {
    "authentication": {"mechanisms": ["digest-md5"], "usersSecret": "stock-users"},
    "metadata": {"connect": "zk://zk:2181/ledgers", "credentialsSecret": "zk-login"},
}
USERS = line().encode()
LOGIN = b"scheme: digest\nuser: fleet\npassword: hunter-2\n"
[OF_USERS, OF_LOGIN] = wanted_secrets(cluster(**ASKS).spec)
LOGIN_VARIABLE = "BOOKIE_ZOOKEEPER__CREDENTIALS_FILE"


@pytest.mark.parametrize(
    ("content", "reason", "words"),
    [
        (None, "SecretMissing", "Secret s is not there, expected it with the key users: make it"),
        ({"user": USERS}, "SecretKeyMissing", "Secret s has no key users, found user: add it"),
        ({}, "SecretKeyMissing", "found none"),
        ({"users": b"hd:testpwd"}, "SecretUnusable", "key users of Secret s: line 1 cannot be"),
        ({"users": b"\xff\xfe"}, "SecretUnusable", "it is no UTF-8"),
        ({"users": b""}, "SecretUnusable", "found no user of realm bookkeeper"),
        ({"users": USERS}, "", ""),
    ],
)
def test_what_is_wrong_with_users_is_named_and_not_shown(
    content: dict[str, bytes] | None, reason: str, words: str
) -> None:
    found = judged(OF_USERS, content, place="Secret s")
    assert found.reason == reason and words in found.message
    assert "testpwd" not in found.message and found.field == "authentication.usersSecret"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"scheme: digest\nuser: fleet\n", "key credentials of Secret s with password: Field req"),
        (b"hunter-2: [", "key credentials of Secret s, which is no YAML"),
        (b"hunter-2", "which holds no fields"),
        (LOGIN, ""),
    ],
)
def test_what_is_wrong_with_a_login_is_named_and_not_shown(content: bytes, words: str) -> None:
    found = judged(OF_LOGIN, {"credentials": content}, place="Secret s")
    assert bool(found.reason) is bool(words) and words in found.message
    assert "hunter" not in found.message


def data(**content: bytes) -> dict[str, str]:
    return {key: base64.b64encode(text).decode() for key, text in content.items()}


def filled(root: Path | None = None) -> Lab:
    """A namespace with both Secrets, and an operator that may keep its login in `root`."""
    lab = Lab(tls={"mode": "Off"}, **ASKS)
    lab.api.put(SECRET, {"metadata": {"name": "stock-users"}, "data": data(users=USERS)})
    lab.api.put(SECRET, {"metadata": {"name": "zk-login"}, "data": data(credentials=LOGIN)})
    lab.platform = KubernetesPlatform(
        lab.api, lab.cluster, clock=lambda: lab.api.now, credentials=root
    )
    return lab


async def reasons(lab: Lab) -> list[str]:
    return [one.reason for one in await lab.platform.secrets(lab.cluster)]


async def test_secrets_that_work_are_said_to_and_asked_for_by_name_twice_a_minute() -> None:
    lab = filled()
    for _ in range(3):
        assert await reasons(lab) == ["", ""]
    asked = [(verb, name) for verb, kind, name in lab.api.calls if kind == "Secret"]
    assert asked == [("get", "stock-users"), ("get", "zk-login")]
    lab.api.remove(SECRET, "stock-users")
    lab.api.now += timedelta(seconds=31)
    assert await reasons(lab) == ["SecretMissing", ""]


async def test_what_was_read_before_the_clock_went_back_is_read_again() -> None:
    api = FakeApi()
    reads = SecretReads(api, lambda: api.now)
    assert await reads.get("users") is None
    api.put(SECRET, {"metadata": {"name": "users"}})
    api.now -= timedelta(hours=1)
    assert await reads.get("users") is not None


async def test_a_right_that_lacks_is_no_end_of_the_pass() -> None:
    lab = filled()
    lab.api.forbid("get", SECRET)
    assert await reasons(lab) == ["SecretsUnseen", "SecretsUnseen"]


async def test_the_operator_keeps_its_login_to_itself_and_takes_up_changes(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    await lab.platform.secrets(lab.cluster)
    mine = lab.platform.login
    assert mine is not None and mine.read_bytes() == LOGIN and not mine.stat().st_mode & 0o077
    for content, kept in ((b"scheme: sasl", LOGIN), (LOGIN + b"# new\n", LOGIN + b"# new\n")):
        lab.api.edit(
            SECRET, "zk-login", lambda one, to=content: one.update(data=data(credentials=to))
        )
        lab.api.now += timedelta(seconds=31)
        await lab.platform.secrets(lab.cluster)
        assert lab.platform.login == mine and mine.read_bytes() == kept


async def test_a_login_that_could_not_be_put_into_its_folder_is_put_there_later(
    tmp_path: Path,
) -> None:
    lab, in_the_way = filled(tmp_path), tmp_path / LOGINS
    in_the_way.write_text("")
    with pytest.raises(LocalError, match="cannot be written"):
        await lab.platform.secrets(lab.cluster)
    assert lab.platform.login is None
    in_the_way.unlink()
    await lab.platform.secrets(lab.cluster)
    assert lab.platform.login is not None and lab.platform.login.read_bytes() == LOGIN


async def test_a_login_that_the_spec_names_no_more_is_used_no_more(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    plain = lab.cluster.spec.metadata.model_copy(update={"credentials_secret": None})
    spec = lab.cluster.spec.model_copy(update={"metadata": plain})
    without = lab.cluster.model_copy(update={"spec": spec})
    for of, has_login in ((lab.cluster, True), (without, False), (lab.cluster, True)):
        await lab.platform.secrets(of)
        assert (lab.platform.login is not None) is has_login


def mounts(pod: Object) -> dict[str, tuple[str, str]]:
    """Where the first container has which key of which Secret."""
    secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
    found = pod["containers"][0]["volumeMounts"]
    assert not any("subPath" in one for one in found), "a kubelet would never renew it"
    return {
        one["mountPath"]: (secrets[one["name"]]["secretName"], secrets[one["name"]]["items"][0])
        for one in found
        if "items" in secrets.get(one["name"], {})
    }


def env(pod: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["containers"][0]["env"]}


KEYS = {
    "/etc/bookie/users": ("stock-users", {"key": "users", "path": "users"}),
    "/etc/bookie/zookeeper": ("zk-login", {"key": "credentials", "path": "credentials"}),
}
LOGIN_ALONE = {"/etc/bookie/zookeeper": KEYS["/etc/bookie/zookeeper"]}


async def test_a_bookie_has_both_and_a_job_the_login() -> None:
    lab = filled()
    await lab.run_bookie()
    pod = lab.pod()
    assert pod is not None and mounts(pod["spec"]) == KEYS
    assert env(pod["spec"])[LOGIN_VARIABLE] == "/etc/bookie/zookeeper/credentials"
    await lab.platform.start_job(repair_job())
    job = lab.api.the(JOB, repair_job().name)["spec"]["template"]["spec"]
    assert mounts(job) == LOGIN_ALONE and LOGIN_VARIABLE in env(job)


def test_executors_have_the_login_and_a_job_on_disks_has_nothing() -> None:
    spark = repair_job(engine="spark-kubernetes")
    rebuild = StartJob("j", JobKind.INDEX_REBUILD, "", 1, bookie_id=B0, disks=("ledger-0",))
    driver, disks = (
        job_manifest(
            cluster(**ASKS), one, metadata_url="zk://z/l", now=T0, clients=TlsMode.REQUIRED
        )["spec"]["template"]["spec"]
        for one in (spark, rebuild)
    )
    template = json.loads(env(driver)["REPAIR_EXECUTOR_TEMPLATE"].replace("$$", "$"))["spec"]
    assert mounts(template) == LOGIN_ALONE and LOGIN_VARIABLE in env(template)
    assert not mounts(disks)


def test_a_person_on_the_local_platform_comes_with_the_fleets_login(tmp_path: Path) -> None:
    status = ClusterStatus.model_validate({"metadata": {"url": "zk://zk:2181/ledgers"}})
    wanted = f"export {LOGIN_VARIABLE}={tmp_path}/secrets/zk-login/credentials\n"
    asking, silent = (cluster(**spec).model_copy(update={"status": status}) for spec in (ASKS, {}))
    assert wanted in exports(LocalFolders(tmp_path), asking)
    assert LOGIN_VARIABLE not in exports(LocalFolders(tmp_path), silent)


async def test_on_the_local_platform_a_folder_is_a_secret(tmp_path: Path) -> None:
    platform, own = LocalPlatform(LocalFolders(tmp_path), grace_s=1), cluster(**ASKS)
    try:
        assert {one.reason for one in await platform.secrets(own)} == {"SecretMissing"}
        assert platform.login is None
        for name, key, content in (
            ("stock-users", "users", USERS), ("zk-login", "credentials", LOGIN)
        ):  # fmt: skip
            (tmp_path / "secrets" / name).mkdir(parents=True)
            (tmp_path / "secrets" / name / key).write_bytes(content)
        found = await platform.secrets(own)
        assert [one.reason for one in found] == ["", ""]
        assert platform.login == tmp_path / "secrets/zk-login/credentials"
    finally:
        await platform.close()
