"""Stories of changed specs: rolling restarts, pauses, TLS, certificates, and what cannot start."""

from typing import Final

from bookie.errors import UnavailableError
from bookie.tls.principals import Role
from bookie.wire.admin.health import Phase
from bookie_operator.errors import ForbiddenError
from bookie_operator.observed import JobKind, NamedSecret
from bookie_operator.tls_view import Issuer
from operator_story import Story
from story_bookies import UNCLEAN
from story_reports import audit
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OFF: Final = {"mode": "Off"}
DAY: Final = 86400.0


async def test_a_rolling_restart(snapshot: SnapshotAssertion) -> None:
    """All settings that bookies have are other ones: one bookie after the other gets them."""
    story = Story(replicas=3, tls=OFF)
    await story.is_running()
    story.change("settings of all kinds", **ALL_SETTINGS)
    await story.go_on(3)
    await story.go_on(2, every=10)
    await story.go_on(2)
    await story.go_on(4, every=10)
    story.end_job(JobKind.AUDIT, audit())
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_rolling_restart_that_waits(snapshot: SnapshotAssertion) -> None:
    """For one that is away, for limbo, and then for the first one that fails with a new image."""
    story = Story(replicas=4, tls=OFF, rollout={"partition": 1})
    await story.is_running()
    story.bookie(2).end(1, "exit code 1")
    story.change("another image", image="example.org/bookie:2")
    await story.go_on()
    story.bookie(2).begin(UNCLEAN, limbo=1)
    await story.go_on(3)
    story.bookie(2).limbo = 0
    story.end_job(JobKind.REPAIR)
    await story.go_on(2)
    story.note("bookie-1 cannot get its image")
    waiting = "ImagePullBackOff: example.org/bookie:2 is not there"
    story.bookie(1).platform = {"running": False, "waiting": waiting}
    await story.go_on(2, every=5)
    await story.go_on(every=61)
    story.change("the image of before", image="example.org/bookie:1")
    await story.go_on(2)
    story.bookie(1).platform.clear()
    await story.go_on(3)
    assert snapshot(extension_class=Words) == story.text


async def test_what_people_ask_to_restart(snapshot: SnapshotAssertion) -> None:
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.ask("restart", bookie="bookie-1")
    story.ask("restart", "second", bookie="bookie-2")
    story.ask("restart", "nobody", bookie="bookie-9")
    await story.go_on(2)
    await story.go_on(2)
    story.bookie(2).coming = [Phase.REFUSED]
    story.bookie(2).facts["message"] = "the journal is torn"
    await story.go_on(2)
    story.bookie(3).end(0, "exit code 0", is_planned=True)
    story.ask("restart", "too-late", bookie="bookie-3")
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_pause(snapshot: SnapshotAssertion) -> None:
    """Nothing is changed meanwhile, whatever happens; after it everything is made up for."""
    story = Story(replicas=4, tls=OFF)
    await story.is_running()
    story.change("paused, with another image", paused=True, image="example.org/bookie:2")
    await story.go_on(2)
    story.bookie(0).crash(limbo=2)
    story.ask("repair", bookie="bookie-0")
    story.ask("audit")
    story.ask("repair", "all")
    story.ask("accept-loss", ledger=3, reason="gone", approvedBy="ann")
    await story.go_on(3)
    story.change("and a bookie fewer", replicas=3)
    await story.go_on()
    await story.go_on(every=61)
    story.change("go on", paused=False)
    await story.go_on(3)
    story.bookie(0).limbo = 0
    story.end_job(JobKind.REPAIR)
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_from_off_to_required(snapshot: SnapshotAssertion) -> None:
    """Each bookie takes both for a while; then nobody takes plain any more."""
    story = Story(tls=OFF)
    await story.is_running()
    story.change("TLS", tls={"mode": "Required"})
    await story.go_on(2)
    for _ in range(2):
        await story.go_on(9, every=6)
    assert snapshot(extension_class=Words) == story.text


async def test_certificates_that_end(snapshot: SnapshotAssertion) -> None:
    """Renewed in time; and an authority that gives way to another one."""
    story = Story(audit={"schedule": "@never"}, scrub={"schedule": "@never"}, tls=SHORT)
    await story.is_running()
    story.note("ten days before their end")
    await story.go_on(every=20.5 * DAY)
    await story.go_on()
    story.note("the authority has less than a lifetime left")
    await story.go_on(2, every=10 * DAY)
    await story.go_on(2)
    await story.go_on(every=31)
    await story.go_on(2)
    await story.go_on(2, every=31)
    assert snapshot(extension_class=Words) == story.text


async def test_credentials_that_are_wrong(snapshot: SnapshotAssertion) -> None:
    """Garbled by somebody, an authority that is lost, and an operator that may not read them."""
    story = Story(tls={"mode": "Required"})
    await story.is_running()
    vault = story.platform.vault
    story.note("somebody garbles the key of bookie-0, and takes away that of jobs")
    vault.garble(story.platform.holder(Role.BOOKIE, "bookie-0"))
    await vault.drop(story.platform.holder(Role.JOB))
    await story.go_on(2)
    story.note("the authority is garbled")
    vault.garble(None)
    await story.go_on(3)
    await story.go_on(3, every=31)
    story.note("the operator may not read pods any more")
    story.platform.denied = "secrets is forbidden"
    await story.go_on(2)
    story.platform.denied = ""
    await story.go_on()
    assert snapshot(extension_class=Words) == story.text


async def test_an_issuer_that_does_not_sign(snapshot: SnapshotAssertion) -> None:
    issuer = {"name": "corporate", "kind": "ClusterIssuer"}
    story = Story(tls={"mode": "Required", "issuer": issuer}, authentication=LOGINS)
    story.platform.issuer = Issuer(
        "ClusterIssuer corporate", "expected it among the cluster's", is_there=False
    )
    secret = NamedSecret("authentication.usersSecret", "key users of Secret people")
    story.platform.secrets_seen = (secret,)
    await story.go_on()
    story.platform.issuer = Issuer("ClusterIssuer corporate", trouble="it has no account")
    missing = "Secret people is not there"
    story.platform.secrets_seen = (
        NamedSecret(secret.field, secret.place, "SecretMissing", missing),
    )
    await story.go_on(2)
    refused = {"bookie-0": "denied by policy"}
    story.platform.issuer = Issuer("ClusterIssuer corporate", refused=refused)
    story.platform.secrets_seen = (secret,)
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_a_store_that_is_away(snapshot: SnapshotAssertion) -> None:
    """Then another one is there in its place, then the right one."""
    story = Story(tls=OFF)
    await story.is_running()
    story.note("the store does not answer, and bookie-1 crashes")
    story.is_store_up = False
    story.bookie(1).crash(limbo=2)
    story.change("another image meanwhile", image="example.org/bookie:2")
    await story.go_on(3)
    right = story.metadata.instance_id
    story.note("an empty store is there")
    story.is_store_up, story.metadata.instance_id = True, None
    await story.go_on()
    story.note("another cluster's store is there")
    story.metadata.instance_id = "instance-of-others"
    await story.go_on(2)
    story.metadata.instance_id = right
    story.note("the right one is back")
    await story.go_on(2)
    assert snapshot(extension_class=Words) == story.text


async def test_what_the_api_server_refuses(snapshot: SnapshotAssertion) -> None:
    """Starts of bookies and jobs, task statuses, surroundings: told once, tried again, given up."""
    story = Story(tls=OFF)
    await story.go_on()
    story.platform.failing = True
    await story.go_on(3)
    await story.go_on(3, every=30)
    story.platform.failing = False
    story.platform.job_refusal = UnavailableError("exceeded quota: pods=10")
    await story.go_on(every=60)
    await story.go_on(3, every=60)
    story.platform.job_refusal = ForbiddenError("jobs is forbidden")
    await story.go_on(3, every=60)
    story.platform.job_refusal = None
    story.platform.settling_fails = True
    await story.go_on(4, every=60)
    story.platform.settling_fails = False
    story.platform.task_refusal = ForbiddenError("bookietasks/status is forbidden")
    story.ask("restart", bookie="bookie-9")
    await story.go_on(2)
    story.note("and the store is away as well")
    story.is_store_up = False
    await story.go_on()
    assert snapshot(extension_class=Words) == story.text


SHORT: Final = {
    "mode": "Required",
    "lifetimeDays": 30,
    "renewBeforeDays": 10,
    "authorityDays": 60,
}
LOGINS: Final = {"mechanisms": ["tls", "digest-md5"], "usersSecret": "people"}
ALL_SETTINGS: Final = {
    "image": "example.org/bookie:2",
    "imagePullPolicy": "Always",
    "imagePullSecrets": ["pull"],
    "resources": {"requests": {"cpu": "3"}, "limits": {"memory": "4Gi"}},
    "gracePeriodSeconds": 77,
    "restartedAt": "now",
    "ack": "sync",
    "flushIntervalSeconds": 6,
    "compactionBytesPerSecondBusy": 1000001,
    "recoveryBytesPerSecondBusy": 1000002,
    "collectGraceSeconds": 503,
    "collectShareMax": 0.25,
    "noteIdleFlushes": 9,
    "bookiePod": {"labels": {"team": "logs"}},
    "cookieFix": {"policy": "Never"},
}
