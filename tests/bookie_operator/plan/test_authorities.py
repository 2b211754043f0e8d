"""A roll-over of authorities, whatever fails in between: at no moment do two of a fleet not trust
each other. Whoever uses credentials reads them late, as pods do, but for as long as it may take."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from bookie.tls.principals import Principal, Role
from bookie_operator.errors import PreconditionError
from bookie_operator.model.tls import Tls, TlsStatus
from bookie_operator.plan.actions import CertificateAction, IssueCertificate, MakeAuthority
from bookie_operator.plan.authorities import rolled
from bookie_operator.plan.certificate_troubles import AUTHORITY_EXPIRED, AUTHORITY_LOST
from bookie_operator.plan.certificates import NEW_AUTHORITY
from bookie_operator.platform.certifier import Certifier
from bookie_operator.platform.credential_files import Files, certificate_of
from bookie_operator.tls_view import Authorities, TlsView
from memory_vault import MemoryVault
from operator_scenes import DAY, SIGNER, T0, good

HOLDERS = tuple(
    Principal("local", "demo", role, name)
    for role, name in [
        (Role.BOOKIE, "bookie-0"),
        (Role.BOOKIE, "bookie-1"),
        (Role.OPERATOR, "operator"),
        (Role.JOB, "job"),
    ]
)
TLS = Tls(mode="Required", lifetimeDays=90, authorityDays=181)
SPREADS_WITHIN = timedelta(seconds=60)
STEP = timedelta(seconds=10)
STEPS = 120


class Rolling:
    """A fleet whose authority is due, an operator that fails now and then, and slow readers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.vault, self.now = MemoryVault(), T0
        self.certifier = Certifier(self.vault, "demo", lambda: self.now)
        self.status = TlsStatus()
        self.in_use: dict[Principal, Files] = {}
        """What the process of each holder has read."""
        self.written_at: dict[Principal, object] = {}

    async def view(self) -> TlsView:
        return TlsView(
            hosts=dict.fromkeys(HOLDERS, ()),
            certificates=await self.certifier.certificates(HOLDERS),
            authorities=await self.certifier.authorities(),
            spreads_within=SPREADS_WITHIN,
        )

    async def step(self) -> None:
        """One pass of the planner, some of whose actions fail, and some processes that read."""
        view = await self.view()
        step = rolled(view, TLS, self.status, now=self.now)
        self.status = TlsStatus(rollover=step.rollover, since=step.since)
        actions: list[CertificateAction] = list(step.actions)
        if step.signing is not None:
            actions += [
                IssueCertificate(
                    one, (), timedelta(days=90), step.signing.fingerprint, NEW_AUTHORITY
                )
                for one in HOLDERS
                if (found := view.certificates.get(one)) is None
                or found.signer != step.signing.fingerprint
            ]
        for action in actions:
            if self.random.random() < 0.6 or not self.in_use:
                try:
                    await self.certifier.carry_out(action, HOLDERS)
                except PreconditionError:
                    continue
        self.read()
        self.now += STEP

    def read(self) -> None:
        """Each process has what was written long enough ago, and perhaps what is new."""
        for one in HOLDERS:
            files = self.vault.files.get(one)
            if files is None or files == self.in_use.get(one):
                self.written_at.pop(one, None)
                continue
            since = self.written_at.setdefault(one, self.now)
            is_late = self.now - since >= SPREADS_WITHIN - STEP  # type: ignore[operator]
            if is_late or one not in self.in_use or self.random.random() < 0.2:
                self.in_use[one] = files
                self.written_at.pop(one, None)

    def check(self) -> None:
        found = {one: certificate_of(files) for one, files in self.in_use.items()}
        for shown, mine in found.items():
            for other, its in found.items():
                assert mine.signer in its.trusted, f"{other} refuses {shown}"

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await self.step()
            if len(self.in_use) == len(HOLDERS):
                self.check()


@pytest.mark.parametrize("loses_authority", [False, True], ids=["due", "lost"])
@pytest.mark.parametrize("seed", range(12))
async def test_everybody_trusts_everybody_all_the_time(seed: int, loses_authority: bool) -> None:
    one = Rolling(seed)
    await one.run(20)
    first = (await one.view()).authorities.signing
    if loses_authority:
        del one.vault.files[None]
    else:
        one.now += timedelta(days=92)
    await one.run(STEPS)
    found = (await one.view()).authorities
    assert found.signing is not None and first is not None
    assert found.signing.fingerprint != first.fingerprint and len(found.trusted) == 1
    assert one.status == TlsStatus(), "it has come to its end"


async def test_a_reader_that_is_later_than_it_may_be_is_what_would_break_it() -> None:
    """The check above can fail: so late a reader does not know whom the others trust by now."""
    one = Rolling(1)
    await one.run(20)
    slow = dict(one.in_use)
    one.now += timedelta(days=92)
    await one.run(STEPS)
    one.in_use |= {HOLDERS[0]: slow[HOLDERS[0]]}
    with pytest.raises(AssertionError, match="refuses"):
        one.check()


ENDED = replace(SIGNER, not_after=T0)
GONE, NEVER = Authorities(), Authorities(is_new=True)


@pytest.mark.parametrize(
    ("found", "is_signed", "reason", "words"),
    [
        (NEVER, False, "", ""),
        (Authorities(SIGNER, None, {"aa": SIGNER}), True, "", ""),
        (GONE, True, AUTHORITY_LOST, "cannot sign: it is not there; another one takes over"),
        (Authorities(trouble="ca.key is torn"), False, AUTHORITY_LOST, "cannot sign: ca.key is"),
        (Authorities(trouble="ca.key is torn"), True, AUTHORITY_LOST, "cannot sign: ca.key is"),
        (Authorities(ENDED, None, {"aa": ENDED}), True, AUTHORITY_EXPIRED, "expired since 2026-01"),
    ],
)
def test_an_authority_that_cannot_sign_any_more_is_trouble_and_the_first_one_is_none(
    found: Authorities, is_signed: bool, reason: str, words: str
) -> None:
    certificates = {one: good(one) for one in HOLDERS} if is_signed else {}
    view = TlsView(dict.fromkeys(HOLDERS, ()), certificates, authorities=found)
    step = rolled(view, TLS, TlsStatus(), now=T0)
    assert [one.reason for one in step.troubles] == [reason] * bool(reason)
    assert words in "".join(one.message for one in step.troubles)


@pytest.mark.parametrize("is_signed", [False, True])
def test_one_in_place_of_a_lost_one_signs_once_all_who_were_signed_trust_it(
    is_signed: bool,
) -> None:
    certificates = {one: good(one) for one in HOLDERS} if is_signed else {}
    view = TlsView(dict.fromkeys(HOLDERS, ()), certificates)
    [made] = rolled(view, TLS, TlsStatus(), now=T0).actions
    keeps = frozenset({"aa"} if is_signed else ())
    assert made == MakeAuthority(181 * DAY, keeps, signs=not is_signed)
