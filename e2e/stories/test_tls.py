"""TLS of a running fleet: it comes and goes, certificates and their authority change, and what is
wrong with one is said. A writer notes every acknowledged entry the whole time.
"""

from datetime import UTC, datetime

import pytest
from harness.commands import CommandError
from harness.credentials import LONGER, SIGNED_LONGER, Credentials
from harness.fleet import condition_of
from harness.kube import Object
from harness.manifests import ACCEPTED, OFF, REQUIRED
from harness.settings import PATIENCE
from harness.story import Story
from harness.watch import Seen

STEP_S = 300.0
"""Every bookie stopped with its flush and started again, one after the other."""
ROLLOVER_S = 500.0
"""Two steps of three minutes, which a kubelet needs for its part, and what is written between."""
CERTIFICATES = "CertificatesValid"
IN_FORCE = "TlsInForce"
GAP_MAX_S = 5.0
"""The longest time in which a writer that is not interrupted may have no entry acknowledged."""


def tls_of(cluster: Object) -> Object:
    return (cluster.get("status") or {}).get("tls") or {}


def told_on_the_way(seen: list[Seen]) -> list[tuple[str, str]]:
    """Mode of the status and reason of TlsInForce, each once, in the order they were seen."""
    found: list[tuple[str, str]] = []
    for one in seen:
        reason = condition_of(one.object, IN_FORCE)["reason"]
        told = str(tls_of(one.object).get("mode", OFF)), str(reason)
        if reason != "NotThere" and (not found or found[-1] != told):
            found.append(told)
    return found


def go(story: Story, mode: str) -> list[tuple[str, str]]:
    """To this mode, until it is in force; what the status said meanwhile."""
    began, mark = datetime.now(UTC), story.fleet.watch.mark()
    story.fleet.change({"tls": {"mode": mode}})
    if mode == OFF:
        story.fleet.wait("no TLS", lambda found: not tls_of(found), seconds=STEP_S, since=mark)
    else:
        story.fleet.wait_condition(IN_FORCE, reason="InForce", seconds=STEP_S, since=mark)
        assert tls_of(story.fleet.object())["mode"] == mode
    story.fleet.wait_whole()
    took = round((datetime.now(UTC) - began).total_seconds(), 1)
    story.numbers[f"to_{mode}_s"] = took
    return told_on_the_way(story.fleet.watch.versions()[mark:])


def is_uninterrupted(story: Story, said: Object) -> None:
    """The writer met no error, and was never long without an acknowledgement."""
    story.numbers["longest_gap_s"] = max(
        said["longest_gap_s"], story.numbers.get("longest_gap_s", 0)
    )
    assert said["trouble"] == {}, said
    assert said["longest_gap_s"] <= GAP_MAX_S * PATIENCE, said


def reasons_of_events(story: Story) -> set[str]:
    return {str(one["reason"]) for one in story.kube.events("demo")}


@pytest.mark.story("ll", "a plain fleet goes to TLS and back under load")
def test_a_running_fleet_goes_to_tls_and_back(story: Story) -> None:
    story.up({"tls": {"mode": OFF}})  # plain, as what runs since before there was TLS
    assert not tls_of(story.fleet.object())
    plain = story.write(judged=False)  # a stock client takes one of the two
    said = go(story, ACCEPTED)
    assert (ACCEPTED, "Accepting") in said, said
    # As its user would: a second instance with credentials, and then the first one goes.
    load = story.write(pod="writer-tls", clients=ACCEPTED, judged=False)
    plain.goes_on()
    is_uninterrupted(story, plain.stop())
    said = go(story, REQUIRED)
    assert (REQUIRED, "Requiring") in said, said
    assert story.fleet.metadata_url().startswith("zk://"), "its ZooKeeper stays as it was made"
    load.goes_on()
    with pytest.raises(CommandError, match="this port takes TLS only"):
        plain.append_one()
    said = go(story, OFF)
    assert (ACCEPTED, "Accepting") in said, said
    load.goes_on()
    assert not story.fleet.status().get("incidents"), "every stop was clean"
    is_uninterrupted(story, load.progress())
    notes = plain.notes()
    story.nothing_is_lost()
    found = load.check_notes(notes)
    assert found["read"] == found["acked"] > 0, found
    story.numbers["acked"] += found["acked"]
    plain.append_one()


@pytest.mark.story("mm", "certificates renewed, and another authority, under load")
def test_certificates_and_their_authority_change_and_nobody_notices(story: Story) -> None:
    fleet = story.fleet
    story.up()
    story.write()
    credentials, before = Credentials(fleet), story.boots()
    first = credentials.shown()
    story.kube.delete("secret", "demo-bookie-1-tls")  # renewed out of turn
    fleet.change({"tls": LONGER})
    credentials.wait_lasting(SIGNED_LONGER)
    assert story.boots() == before, "nobody is restarted for a renewal"
    story.load.goes_on()
    began, mark = datetime.now(UTC), fleet.watch.mark()
    story.kube.delete("secret", "demo-ca")
    for step in ("Trusting", "Signing", ""):
        fleet.wait(
            f"roll-over {step!r}",
            lambda found, step=step: tls_of(found).get("rollover", "") == step,
            seconds=ROLLOVER_S,
            since=mark,
        )
        mark = fleet.watch.mark()
    story.numbers["rollover_s"] = round((datetime.now(UTC) - began).total_seconds(), 1)
    last = credentials.shown()
    signers = {one["signer"] for one in last.values()}
    assert len(signers) == 1 and signers.isdisjoint(one["signer"] for one in first.values())
    assert [one["signs"] for one in tls_of(fleet.object())["authorities"]] == [True]
    assert story.boots() == before, "nobody is restarted for another authority"
    story.load.goes_on()
    is_uninterrupted(story, story.load.progress())
    story.nothing_is_lost()


@pytest.mark.story("nn", "certificates taken away, garbled and expired under load")
def test_what_is_wrong_with_a_certificate_is_said_and_bookies_go_on(story: Story) -> None:
    fleet, credentials = story.fleet, Credentials(story.fleet)
    story.up()
    story.write()
    before = story.boots()
    fleet.wait_condition(CERTIFICATES)
    garbage = b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"
    wrongs = {
        "CertificateMissing": lambda: credentials.take_away("bookie-1"),
        "CertificateUnusable": lambda: credentials.put("bookie-1", {"tls.crt": garbage}),
        "CertificateExpired": lambda: credentials.put("bookie-1", credentials.expired("bookie-1")),
    }
    for reason, do in wrongs.items():
        mark = fleet.watch.mark()
        do()
        said = fleet.wait_condition(CERTIFICATES, "False", reason=reason, since=mark)
        assert "demo-bookie-1-tls" in condition_of(said, CERTIFICATES)["message"]
        fleet.wait_condition(CERTIFICATES, since=fleet.watch.mark() - 1)  # mended by itself
        assert reason in reasons_of_events(story)
    # Nobody mends it now: what is garbled comes into the pod, and the bookie keeps what it had.
    fleet.change({"paused": True})
    credentials.put("bookie-1", {"tls.crt": garbage})
    fleet.wait_condition(CERTIFICATES, "False", reason="CertificateUnusable")
    credentials.wait_mounted("bookie-1", "tls.crt", garbage)
    assert len(credentials.shown()) == 13, "every port still answers"
    story.load.goes_on()
    fleet.change({"paused": False})
    fleet.wait_condition(CERTIFICATES)
    assert story.boots() == before
    is_uninterrupted(story, story.load.progress())
    story.nothing_is_lost()
