"""Steps of the operator's own authority are done to what they were planned for, or not at all."""

from datetime import timedelta

import pytest
from bookie.tls.authority import Authority
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY
from bookie.tls.principals import Principal, Role
from bookie_operator.errors import PreconditionError
from bookie_operator.plan.actions import (
    CertificateAction,
    DropAuthorities,
    IssueCertificate,
    MakeAuthority,
    SignWith,
    SpreadTrust,
)
from bookie_operator.plan.certificate_troubles import WRONG_NAME, trouble_of
from bookie_operator.platform.certifier import Certifier
from bookie_operator.platform.credential_files import (
    NEXT_CERTIFICATE,
    NEXT_KEY,
    certificate_of,
    fingerprint,
)
from bookie_operator.tls_view import Certificate, TlsView
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from memory_vault import MemoryVault
from operator_scenes import T0

YEAR = timedelta(days=365)
BOOKIE = Principal("local", "demo", Role.BOOKIE, "bookie-0")


@pytest.fixture
def vault() -> MemoryVault:
    return MemoryVault()


@pytest.fixture
async def certifier(vault: MemoryVault) -> Certifier:
    """One authority signs, and another one waits for its turn."""
    made = Certifier(vault, "demo", lambda: T0)
    await made.carry_out(MakeAuthority(YEAR, frozenset(), signs=True), ())
    first = frozenset((await made.authorities()).trusted)
    await made.carry_out(MakeAuthority(YEAR, first, signs=False), ())
    return made


async def test_only_the_authority_that_was_meant_begins_to_sign(certifier: Certifier) -> None:
    before = await certifier.authorities()
    with pytest.raises(PreconditionError, match="does not wait to sign any more"):
        await certifier.carry_out(SignWith("0" * 40), ())
    assert await certifier.authorities() == before


async def test_the_authority_that_signs_is_not_dropped(certifier: Certifier) -> None:
    before = await certifier.authorities()
    assert before.coming is not None
    with pytest.raises(PreconditionError, match="another authority signs by now"):
        await certifier.carry_out(DropAuthorities(frozenset({before.coming.fingerprint})), ())
    assert await certifier.authorities() == before


async def test_what_was_written_last_is_what_a_holder_has(
    certifier: Certifier, vault: MemoryVault
) -> None:
    signing = (await certifier.authorities()).signing
    assert signing is not None
    ends = []
    for days in (10, 20):
        lifetime = timedelta(days=days)
        issue = IssueCertificate(BOOKIE, ("localhost",), lifetime, signing.fingerprint, "due")
        await certifier.carry_out(issue, ())
        found = (await certifier.certificates([BOOKIE]))[BOOKIE]
        ends.append(found.not_after)
    assert ends[1] - ends[0] == timedelta(days=10)
    files = await vault.read(BOOKIE)
    assert files is not None
    await vault.write(BOOKIE, {**files, KEY: b"garbage"})
    assert (await certifier.certificates([BOOKIE]))[BOOKIE].trouble


async def test_a_step_that_was_planned_for_other_authorities_is_not_taken(
    certifier: Certifier, vault: MemoryVault
) -> None:
    """Neither for fewer, for more nor for others than there are."""
    found = await certifier.authorities()
    assert found.signing is not None and found.coming is not None
    one, two, gone = found.signing.fingerprint, found.coming.fingerprint, "0" * 40
    await certifier.carry_out(IssueCertificate(BOOKIE, (), YEAR, one, "new"), ())
    before = dict(vault.files)
    others = [frozenset(names) for names in ((), (one,), (two,), (one, gone), (one, two, gone))]
    steps: list[CertificateAction] = [SpreadTrust(BOOKIE, names) for names in others]
    steps += [IssueCertificate(BOOKIE, (), YEAR, other, "new") for other in (two, gone)]
    steps += [MakeAuthority(YEAR, frozenset({gone}), signs) for signs in (True, False)]
    steps += [DropAuthorities(frozenset(names)) for names in ((one, gone), (two,), ())]
    steps += [SpreadTrust(BOOKIE.peer(Role.CLIENT, "client"), frozenset({one, two}))]
    for step in steps:
        with pytest.raises(PreconditionError):
            await certifier.carry_out(step, [BOOKIE])
        assert vault.files == before, step
    await certifier.carry_out(SpreadTrust(BOOKIE, frozenset({one, two})), ())
    assert set((await certifier.certificates([BOOKIE]))[BOOKIE].trusted) == {one, two}


@pytest.mark.parametrize("trusted", [CERTIFICATE, NEXT_CERTIFICATE])
async def test_an_authority_that_is_not_among_the_trusted_is_given_up(
    certifier: Certifier, vault: MemoryVault, trusted: str
) -> None:
    """Nobody would believe what it signed."""
    before = vault.files[None]
    vault.files[None] = {**before, AUTHORITIES: before[trusted]}
    found = await certifier.authorities()
    assert found.trouble and found.signing is None and found.coming is None
    vault.files[None] = {**before, AUTHORITIES: before[CERTIFICATE] + before[NEXT_CERTIFICATE]}
    found = await certifier.authorities()
    assert not found.trouble and found.signing is not None and found.coming is not None


@pytest.mark.parametrize("name", [KEY, CERTIFICATE, AUTHORITIES, NEXT_KEY, NEXT_CERTIFICATE])
@pytest.mark.parametrize("signs", [True, False])
async def test_whatever_of_an_authority_cannot_be_read_another_takes_its_place(
    certifier: Certifier, vault: MemoryVault, name: str, signs: bool
) -> None:
    vault.garble(None, name)
    assert (await certifier.authorities()).trouble
    await certifier.carry_out(MakeAuthority(YEAR, frozenset(), signs), ())
    found = await certifier.authorities()
    assert not found.trouble and len(found.trusted) == 1
    assert (found.signing is not None, found.coming is not None) == (signs, not signs)


@pytest.mark.parametrize("name", [KEY, NEXT_KEY])
async def test_the_key_of_another_certificate_is_no_key_of_an_authority(
    certifier: Certifier, vault: MemoryVault, name: str
) -> None:
    before = vault.files[None]
    vault.files[None] = {**before, name: before[NEXT_KEY if name == KEY else KEY]}
    said = f"{name} is not the key of the certificate beside it"
    assert (await certifier.authorities()).trouble == said


def test_the_key_of_another_certificate_is_no_key_of_a_holder() -> None:
    signer = Authority.make("demo", now=T0, lifetime=YEAR)
    mine, other = (signer.sign(BOOKIE, now=T0, lifetime=YEAR) for _ in range(2))
    files = {CERTIFICATE: mine.certificate, KEY: other.key, AUTHORITIES: signer.pem}
    assert certificate_of(files).trouble == f"{KEY} is not the key of the certificate beside it"
    assert not certificate_of({**files, KEY: mine.key}).trouble


def above(one: Authority, another: Authority) -> bytes:
    """A certificate by which the one vouches for the other."""
    key = another.certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    made = x509.CertificateBuilder(one.certificate.subject, another.certificate.subject, key)
    made = made.serial_number(7).not_valid_before(T0).not_valid_after(T0 + YEAR)
    return made.sign(one.key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("places", [(0, 1), (1, 0), (0,), (1,), ()], ids=str)
def test_a_chain_leads_to_its_authority_in_any_order_if_it_is_whole(places: tuple[int]) -> None:
    top, middle, low = (Authority.make(n, now=T0, lifetime=YEAR) for n in ("a", "b", "c"))
    between = (above(top, middle), above(middle, low))
    leaf = low.sign(BOOKIE, now=T0, lifetime=YEAR)
    chain = b"".join([leaf.certificate, *(between[place] for place in places)])
    found = certificate_of({CERTIFICATE: chain, KEY: leaf.key, AUTHORITIES: top.pem})
    assert not found.trouble
    assert found.signer == (fingerprint(top.certificate) if len(places) == 2 else "")


@pytest.mark.parametrize(
    "other",
    [
        BOOKIE.peer(Role.CLIENT, BOOKIE.name),
        Principal("local", "other", Role.BOOKIE, BOOKIE.name),
        Principal("other", "demo", Role.BOOKIE, BOOKIE.name),
        None,
    ],
    ids=str,
)
def test_whoever_has_the_same_name_elsewhere_is_another_one(other: Principal | None) -> None:
    hosts = frozenset({BOOKIE.server_name})
    found = Certificate("", other, hosts, T0 - YEAR, T0 + YEAR, signer="one")
    view = TlsView({BOOKIE: ()}, {BOOKIE: found})
    trouble = trouble_of(view, BOOKIE, (), now=T0, reported_before=timedelta())
    assert trouble is not None and trouble.reason == WRONG_NAME
