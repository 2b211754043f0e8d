"""Signs for one cluster with an authority of the operator's own, on whatever platform.

Where things lie is the vault's matter: secrets, or folders. What is decided is in `plan`; here each
step is one write, so that it may be cut anywhere, and names what it was planned for.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

from bookie.tls.authority import Authority as Signer
from bookie.tls.authority import Issued
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY
from bookie.tls.principals import Principal
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bookie_operator.errors import PreconditionError
from bookie_operator.plan.actions import (
    CertificateAction,
    DropAuthorities,
    IssueCertificate,
    MakeAuthority,
    SignWith,
    SpreadTrust,
    WithdrawCertificate,
)
from bookie_operator.platform.credential_files import (
    NEXT_CERTIFICATE,
    NEXT_KEY,
    Files,
    authorities_in,
    authorities_of,
    certificate_of,
    fingerprint,
)
from bookie_operator.tls_view import Authorities, Certificate

REMEMBERED_MAX: Final = 512


class Vault(Protocol):
    """Stores the credentials of one cluster: a set of files for each holder."""

    async def read(self, holder: Principal | None) -> Files | None:
        """The files of a holder, or of the authority (None); None = there are none."""

    async def write(self, holder: Principal | None, files: Files) -> None:
        """All of them at once: whoever reads has the old ones or the new."""

    async def drop(self, holder: Principal) -> None:
        """There are none any more, if there were any."""


class Certifier:
    """Signs and spreads the credentials of one cluster."""

    def __init__(self, vault: Vault, name: str, clock: Callable[[], datetime]) -> None:
        """`name`: of the cluster, which its authorities carry for people."""
        self._vault = vault
        self._name = name
        self._clock = clock
        self._known: dict[Principal, tuple[Files, Certificate]] = {}
        """What each holder's files were found to be: signatures are not checked in every pass."""

    async def authorities(self) -> Authorities:
        return authorities_of(await self._vault.read(None))

    async def certificates(self, holders: Iterable[Principal]) -> dict[Principal, Certificate]:
        """What each of them has; one that is not among the answers has nothing."""
        found = {}
        for holder in holders:
            files = await self._vault.read(holder)
            if files is not None:
                found[holder] = self._certificate(holder, files)
        return found

    def _certificate(self, holder: Principal, files: Files) -> Certificate:
        known = self._known.get(holder)
        if known is not None and known[0] == files:
            return known[1]
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[holder] = (files, certificate_of(files))
        return self._known[holder][1]

    async def carry_out(self, action: CertificateAction, holders: Iterable[Principal]) -> None:
        """PreconditionError: what it was planned for has changed. `holders`: all there are."""
        match action:
            case MakeAuthority(lifetime, keeps, signs):
                await self._make(lifetime, keeps, signs, holders)
            case SignWith(wanted):
                await self._sign_with(wanted)
            case DropAuthorities(kept):
                await self._drop(kept)
            case IssueCertificate():
                await self._issue(action)
            case SpreadTrust(holder, authorities):
                await self._spread(holder, authorities)
            case WithdrawCertificate(holder):
                await self._vault.drop(holder)

    async def _make(
        self,
        lifetime: timedelta,
        keeps: frozenset[str],
        signs: bool,
        holders: Iterable[Principal],
    ) -> None:
        before = await self._vault.read(None) or {}
        known = authorities_in(before)
        for holder in holders:
            known |= authorities_in(await self._vault.read(holder) or {})
        if not keeps <= known.keys():
            raise PreconditionError("an authority that was to be kept is not there any more")
        made = Signer.make(f"{self._name} bookies", now=self._clock(), lifetime=lifetime)
        trusted = [known[one] for one in sorted(keeps)] + [made.certificate]
        issued = made.to_issued()
        if signs:
            files = {CERTIFICATE: issued.certificate, KEY: issued.key}
        else:
            files = {NEXT_CERTIFICATE: issued.certificate, NEXT_KEY: issued.key}
            if not authorities_of(before).trouble:  # one that cannot be read is given up
                files |= {name: before[name] for name in (CERTIFICATE, KEY) if name in before}
        await self._vault.write(None, files | {AUTHORITIES: _pem(trusted)})

    async def _sign_with(self, wanted: str) -> None:
        files = await self._authority_files()
        coming = authorities_of(files).coming
        if coming is None or coming.fingerprint != wanted:
            raise PreconditionError(f"authority {wanted} does not wait to sign any more")
        now = {CERTIFICATE: files[NEXT_CERTIFICATE], KEY: files[NEXT_KEY]}
        await self._vault.write(None, now | {AUTHORITIES: files[AUTHORITIES]})

    async def _drop(self, kept: frozenset[str]) -> None:
        files = await self._authority_files()
        signing, known = authorities_of(files).signing, authorities_in(files)
        if signing is None or signing.fingerprint not in kept or not kept <= known.keys():
            raise PreconditionError("another authority signs by now")
        rest = [one for name, one in known.items() if name in kept]
        await self._vault.write(None, {**files, AUTHORITIES: _pem(rest)})

    async def _issue(self, action: IssueCertificate) -> None:
        files = await self._authority_files()
        signer = Signer.load(Issued(files.get(CERTIFICATE, b""), files.get(KEY, b"")))
        if fingerprint(signer.certificate) != action.authority:
            raise PreconditionError("another authority signs by now")
        issued = signer.sign(
            action.principal, hosts=action.hosts, now=self._clock(), lifetime=action.lifetime
        )
        made = {CERTIFICATE: issued.certificate, KEY: issued.key, AUTHORITIES: files[AUTHORITIES]}
        await self._vault.write(action.principal, made)

    async def _spread(self, holder: Principal, wanted: frozenset[str]) -> None:
        files = await self._authority_files()
        mine = await self._vault.read(holder)
        if mine is None or authorities_in(files).keys() != wanted:
            raise PreconditionError("other authorities are to be trusted by now")
        await self._vault.write(holder, {**mine, AUTHORITIES: files[AUTHORITIES]})

    async def _authority_files(self) -> Mapping[str, bytes]:
        files = await self._vault.read(None)
        if files is None:
            raise PreconditionError("the authority is not there any more")
        return files


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)
