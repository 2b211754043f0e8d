"""What every platform promises about certificates: folders and Secrets in the same words."""

import base64
import stat
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.files import FILES
from bookie.tls.principals import Principal, Role
from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.plan.actions import (
    CertificateAction,
    DropAuthorities,
    IssueCertificate,
    MakeAuthority,
    SignWith,
    SpreadTrust,
    WithdrawCertificate,
)
from bookie_operator.plan.certificate_troubles import names_needed, trouble_of
from bookie_operator.platform import Platform
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.kubernetes.api import SECRET
from bookie_operator.platform.kubernetes.credentials import secret_name
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform
from bookie_operator.platform.local import LocalPlatform
from bookie_operator.tls_view import TlsView
from kubernetes_lab import Lab
from operator_scenes import cluster

B0 = BookieId("bookie-0")
DAY = timedelta(days=1)
FIRST = MakeAuthority(365 * DAY, frozenset(), signs=True)
SECOND = timedelta(seconds=31)
"""Longer than what a platform remembers of what it read."""


class Place(Protocol):
    """A platform, and what other hands see and do where its credentials lie."""

    platform: Platform
    cluster: BookieCluster
    now: datetime

    def files(self, holder: Principal | None) -> dict[str, bytes]: ...

    def put(self, holder: Principal, name: str, content: bytes) -> None: ...

    def take_away(self, holder: Principal | None) -> None: ...


@dataclass
class Folders:
    """The local platform."""

    root: Path
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self.cluster = cluster(tls={"mode": "Required"})
        self.platform: Platform = LocalPlatform(
            LocalFolders(self.root), grace_s=1, clock=lambda: self.now
        )

    def folder(self, holder: Principal | None) -> Path:
        name = f"{holder.role.value}-{holder.name}" if holder else "ca"
        return self.root / "tls" / name

    def files(self, holder: Principal | None) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder(holder).iterdir()}

    def put(self, holder: Principal, name: str, content: bytes) -> None:
        (self.folder(holder) / name).write_bytes(content)

    def take_away(self, holder: Principal | None) -> None:
        self.folder(holder).unlink()


class Namespace:
    """Kubernetes."""

    def __init__(self, root: Path) -> None:
        self.lab = Lab(tls={"mode": "Required"})
        self.lab.api.now = datetime.now(UTC)
        self.cluster = self.lab.cluster
        self.platform: Platform = KubernetesPlatform(
            self.lab.api, self.cluster, clock=lambda: self.lab.api.now, credentials=root
        )

    @property
    def now(self) -> datetime:
        return self.lab.api.now

    @now.setter
    def now(self, moment: datetime) -> None:
        self.lab.api.now = moment

    def files(self, holder: Principal | None) -> dict[str, bytes]:
        found = self.lab.api.the(SECRET, secret_name("demo", holder))["data"]
        return {name: base64.b64decode(text) for name, text in found.items()}

    def put(self, holder: Principal, name: str, content: bytes) -> None:
        text = base64.b64encode(content).decode()
        change = {"data": {name: text}}
        self.lab.api.edit(
            SECRET, secret_name("demo", holder), lambda one: one["data"].update(change["data"])
        )

    def take_away(self, holder: Principal | None) -> None:
        self.lab.api.remove(SECRET, secret_name("demo", holder))


@pytest.fixture(params=["folders", "secrets"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "secrets":
        yield Namespace(tmp_path)
        return
    found = Folders(tmp_path)
    yield found
    await found.platform.close()  # type: ignore[attr-defined]


async def look(place: Place, *deciding: str) -> TlsView:
    place.now += SECOND
    return await place.platform.certificates(place.cluster, [B0], deciding)


async def do(place: Place, *actions: CertificateAction) -> TlsView:
    for action in actions:
        await place.platform.certify(action)
    return await look(place)


def issues(view: TlsView, signer: str) -> Iterable[IssueCertificate]:
    for holder, hosts in view.hosts.items():
        asked = hosts if names_needed(holder, hosts) else ()
        yield IssueCertificate(holder, asked, 90 * DAY, signer, "new")


async def provided(place: Place) -> TlsView:
    """Everybody has a certificate."""
    await look(place)
    view = await do(place, FIRST)
    assert view.authorities.signing is not None
    return await do(place, *issues(view, view.authorities.signing.fingerprint))


def troubles(place: Place, view: TlsView) -> dict[str, str]:
    found = {
        holder.name: trouble_of(view, holder, hosts, now=place.now, reported_before=DAY)
        for holder, hosts in view.hosts.items()
    }
    return {name: one.reason for name, one in found.items() if one is not None}


def bookie_of(view: TlsView) -> Principal:
    return next(one for one in view.hosts if one.role is Role.BOOKIE)


async def test_at_first_nobody_has_anything(place: Place) -> None:
    view = await look(place)
    assert view.authorities.is_new and not view.certificates
    assert {one.role for one in view.hosts} >= {Role.BOOKIE, Role.OPERATOR, Role.JOB, Role.CLIENT}
    assert set(troubles(place, view).values()) == {"CertificateMissing"}


async def test_everybody_has_what_the_authority_signed(place: Place) -> None:
    view = await provided(place)
    assert not troubles(place, view)
    assert set(place.files(bookie_of(view))) == set(FILES)
    folder = place.platform.credentials
    assert folder is not None
    found = CredentialsFolder(folder).principal
    assert found is not None and found.role is Role.OPERATOR


async def test_nobody_but_this_user_reads_the_operators_key(place: Place) -> None:
    await provided(place)
    folder = place.platform.credentials
    assert folder is not None
    for path in (folder / "tls.key", folder.resolve()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077


async def test_the_key_of_the_authority_is_nobody_elses(place: Place) -> None:
    view = await provided(place)
    key = place.files(None)["tls.key"]
    assert all(key not in place.files(holder).values() for holder in view.hosts)


async def test_what_other_hands_did_is_seen_and_mended(place: Place) -> None:
    view = await provided(place)
    bookie, job = bookie_of(view), next(one for one in view.hosts if one.role is Role.JOB)
    place.put(bookie, "tls.key", b"nonsense")
    place.take_away(job)
    view = await look(place)
    assert troubles(place, view) == {"bookie-0": "CertificateUnusable", "job": "CertificateMissing"}
    assert view.authorities.signing is not None
    view = await do(place, *issues(view, view.authorities.signing.fingerprint))
    assert not troubles(place, view)


async def test_one_authority_takes_over_from_another(place: Place) -> None:
    view = await provided(place)
    old = view.authorities.signing
    assert old is not None
    view = await do(place, MakeAuthority(365 * DAY, frozenset(view.authorities.trusted), False))
    new, both = view.authorities.coming, frozenset(view.authorities.trusted)
    assert new is not None and view.authorities.signing == old and len(both) == 2
    view = await do(place, *(SpreadTrust(holder, both) for holder in view.hosts))
    assert {found.trusted for found in view.certificates.values()} == {both}
    view = await do(place, SignWith(new.fingerprint), *issues(view, new.fingerprint))
    assert {found.signer for found in view.certificates.values()} == {new.fingerprint}
    kept = frozenset({new.fingerprint})
    view = await do(place, DropAuthorities(kept))
    assert view.authorities.signing == new and set(view.authorities.trusted) == kept
    assert set(place.files(None)) == set(FILES), "neither the old key nor the waiting one"


async def test_a_lost_authority_stays_trusted_beside_the_next(place: Place) -> None:
    view = await provided(place)
    old = frozenset(view.authorities.trusted)
    place.take_away(None)
    await look(place)
    view = await do(place, MakeAuthority(365 * DAY, old, signs=False))
    assert view.authorities.signing is None and view.authorities.coming is not None
    assert set(view.authorities.trusted) > old


@pytest.mark.parametrize(
    "action",
    [
        SignWith("another"),
        DropAuthorities(frozenset({"another"})),
        MakeAuthority(365 * DAY, frozenset({"another"}), signs=False),
    ],
)
async def test_what_was_planned_for_another_authority_is_not_done(
    place: Place, action: CertificateAction
) -> None:
    view = await provided(place)
    before = place.files(None)
    issue = next(iter(issues(view, "another")))
    for one in (action, issue, SpreadTrust(issue.principal, frozenset({"another"}))):
        with pytest.raises(PreconditionError):
            await place.platform.certify(one)
    assert place.files(None) == before


def decision_of(view: TlsView) -> IssueCertificate:
    """A certificate for the job that carries out what ann decided."""
    ann = view.deciding["ann"]
    assert view.authorities.signing is not None
    return IssueCertificate(ann, (), DAY, view.authorities.signing.fingerprint, "a decision")


async def test_who_decides_has_a_certificate_that_can_be_taken_away(place: Place) -> None:
    await provided(place)
    view = await look(place, "ann")
    ann = view.deciding["ann"]
    assert ann.role in (Role.PERSON, Role.DECISION) and view.places[ann]
    await place.platform.certify(decision_of(view))
    view = await look(place, "ann")
    assert trouble_of(view, ann, (), now=place.now, reported_before=timedelta()) is None
    for _ in range(2):  # again is no error: it may have been cut off before anybody knew
        await place.platform.certify(WithdrawCertificate(ann, "it is over"))
        assert ann not in (await look(place, "ann")).certificates


async def test_a_garbled_authority_is_no_error_of_the_planners_step(place: Place) -> None:
    view = await provided(place)
    assert view.authorities.signing is not None
    signer = view.authorities.signing.fingerprint
    place.take_away(None)
    with pytest.raises((PreconditionError, UnavailableError)):
        await place.platform.certify(next(iter(issues(view, signer))))
