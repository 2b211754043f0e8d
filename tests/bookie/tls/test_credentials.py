"""A folder of credentials: what it must hold, and what a change of its files does."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.tls.authority import Authority
from bookie.tls.credentials import Credentials, CredentialsFolder
from bookie.tls.files import stamps
from bookie.tls.principals import Principal, Role
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from descriptors import no_descriptors_left

DAY = timedelta(days=1)
BOOKIE = Principal("storage", "demo", Role.BOOKIE, "bookie-0")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return new_authority()


def new_authority() -> Authority:
    return Authority.make("demo", now=datetime.now(UTC), lifetime=10 * DAY)


def fill(folder: Path, authority: Authority, principal: Principal = BOOKIE) -> Path:
    issued = authority.sign(principal, now=datetime.now(UTC), lifetime=DAY)
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(issued.certificate)
    (folder / "tls.key").write_bytes(issued.key)
    (folder / "ca.crt").write_bytes(authority.pem)
    return folder


def test_a_machine_whose_clock_is_behind_takes_a_new_certificate():
    now = datetime.now(UTC)
    authority = Authority.make("demo", now=now, lifetime=DAY)
    signed = authority.sign(BOOKIE, now=now, lifetime=DAY).certificate
    for one in (authority.certificate, x509.load_pem_x509_certificate(signed)):
        assert one.not_valid_before_utc <= now - timedelta(minutes=5)


def test_no_certificate_outlives_its_authority():
    now = datetime.now(UTC)
    authority = Authority.make("demo", now=now, lifetime=DAY)
    signed = authority.sign(BOOKIE, now=now, lifetime=9 * DAY).certificate
    ends = x509.load_pem_x509_certificate(signed).not_valid_after_utc
    assert ends == authority.certificate.not_valid_after_utc


def test_it_says_whose_it_is(tmp_path: Path, authority: Authority):
    assert CredentialsFolder(fill(tmp_path, authority)).principal == BOOKIE


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, authority: Authority, name: str):
    (fill(tmp_path, authority) / name).unlink()
    with pytest.raises(SettingsError, match=f"{name}.*expected"):
        CredentialsFolder(tmp_path)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_file_of_garbage_is_named(tmp_path: Path, authority: Authority, name: str):
    (fill(tmp_path, authority) / name).write_bytes(b"garbage")
    with pytest.raises(SettingsError, match=f"{name}.*PEM"):
        CredentialsFolder(tmp_path)


def test_the_key_of_another_certificate_is_named(tmp_path: Path, authority: Authority):
    other = fill(tmp_path / "other", authority)
    fill(tmp_path, authority)
    (tmp_path / "tls.key").write_bytes((other / "tls.key").read_bytes())
    with pytest.raises(SettingsError, match="expected the key of the first certificate"):
        CredentialsFolder(tmp_path)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path, authority: Authority, name: str):
    (fill(tmp_path, authority) / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(SettingsError, match=rf"{name}, which cannot be read \(Is a directory"):
        CredentialsFolder(tmp_path)


def test_a_locked_key_is_named(tmp_path: Path, authority: Authority):
    key = fill(tmp_path, authority) / "tls.key"
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    lock = serialization.BestAvailableEncryption(b"word")
    form = serialization.PrivateFormat.PKCS8
    key.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, lock))
    with pytest.raises(SettingsError, match=r"tls.key, which is encrypted, expected one that is"):
        CredentialsFolder(tmp_path)


def test_a_renewed_certificate_is_taken_for_the_next_handshake(
    tmp_path: Path, authority: Authority
):
    folder = CredentialsFolder(fill(tmp_path, authority))
    before, context = folder.current.leaf, folder.server_context()
    fill(tmp_path, authority)
    assert folder.current.leaf != before
    assert folder.server_context() is not context
    assert folder.generation == 1


def test_half_of_a_renewal_changes_nothing(tmp_path: Path, authority: Authority):
    folder = CredentialsFolder(fill(tmp_path, authority))
    context = folder.server_context()
    other = fill(tmp_path / "other", authority)
    (tmp_path / "tls.crt").write_bytes((other / "tls.crt").read_bytes())
    assert folder.server_context() is context


def test_a_renewal_that_could_not_be_read_for_a_moment_is_used_afterwards(
    tmp_path: Path, authority: Authority
) -> None:
    folder = CredentialsFolder(fill(tmp_path, authority))
    before = folder.current.certificate
    fill(tmp_path, authority)
    with no_descriptors_left():
        assert folder.current.certificate == before
    assert folder.current.certificate != before


def test_both_authorities_are_trusted_while_one_follows_the_other(
    tmp_path: Path, authority: Authority
):
    both = (authority, new_authority())
    contexts = []
    for signer in both:
        (fill(tmp_path, signer) / "ca.crt").write_bytes(b"".join(one.pem for one in both))
        folder = CredentialsFolder(tmp_path)
        contexts.append((folder.client_context(), folder.server_context()))
    for client, _ in contexts:
        for _, server in contexts:
            shake_hands(client, server, name=BOOKIE.server_name)


def test_a_server_of_another_name_is_refused(tmp_path: Path, authority: Authority):
    folder = CredentialsFolder(fill(tmp_path, authority))
    name = BOOKIE.peer(Role.BOOKIE, "bookie-1").server_name
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(folder.client_context(), folder.server_context(), name=name)


def test_a_client_of_another_authority_is_refused(tmp_path: Path, authority: Authority):
    server = CredentialsFolder(fill(tmp_path / "server", authority))
    fill(tmp_path, new_authority())
    (tmp_path / "ca.crt").write_bytes(authority.pem)  # it trusts the server, not the other way
    with pytest.raises(ssl.SSLError, match=r"(?i)verify failed"):
        client = CredentialsFolder(tmp_path).client_context()
        shake_hands(client, server.server_context(), name=BOOKIE.server_name)


@pytest.mark.parametrize("days", [-2, 3])
def test_a_clock_that_is_days_off_is_refused(tmp_path: Path, authority: Authority, days: int):
    made = datetime.now(UTC) + days * DAY
    issued = authority.sign(BOOKIE, now=made, lifetime=DAY)
    folder = CredentialsFolder(fill(tmp_path, authority))
    client = folder.client_context()
    (tmp_path / "tls.crt").write_bytes(issued.certificate)
    (tmp_path / "tls.key").write_bytes(issued.key)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"expired|not yet valid"):
        shake_hands(client, folder.server_context(), name=BOOKIE.server_name)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, *, name: str) -> None:
    """Both sides in memory, until both are done; raises what either says."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    assert not sides


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_is_taken_up_once_its_connection_is_gone(
    tmp_path: Path, authority: Authority, version: ssl.TLSVersion
):
    folder = CredentialsFolder(fill(tmp_path, authority))
    server, client = folder.server_context(), folder.client_context()
    client.maximum_version = version
    before = taken_up(client, server, None)
    assert before.session is None or not before.session.has_ticket
    assert not taken_up(client, server, before.session).session_reused


def taken_up(
    client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None
) -> ssl.SSLObject:
    """The client's side after a handshake, and a byte that brings tickets along."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    name = BOOKIE.server_name
    ours = client.wrap_bio(to_client, to_server, server_hostname=name, session=session)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    theirs.write(b"x")
    assert ours.read(1) == b"x"
    return ours


def test_rights_that_were_mended_count_as_a_change(tmp_path: Path, authority: Authority):
    key = fill(tmp_path, authority) / "tls.key"
    before = stamps(tmp_path)
    key.chmod(0o640)
    assert stamps(tmp_path) != before


OTHER_EXTENSIONS = [b"\x06\x03\x2a\x03\x04", b"\x06\x03\x2a\x03\x05"]


def twice_the_same_extension(authority: Authority) -> tuple[bytes, bytes]:
    """A certificate that OpenSSL takes, and RFC 5280 does not; and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(authority.certificate.subject, x509.Name([]))
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(datetime.now(UTC)).not_valid_after(datetime.now(UTC) + DAY)
    for name in ("1.2.3.4", "1.2.3.5"):
        extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(name), b"\x05\0")
        builder = builder.add_extension(extension, critical=False)
    made = builder.sign(authority.key, hashes.SHA256())
    raw = made.public_bytes(serialization.Encoding.DER).replace(*reversed(OTHER_EXTENSIONS))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, *form)
    return ssl.DER_cert_to_PEM_cert(raw).encode(), pem


def test_a_certificate_that_openssl_alone_takes_is_named(tmp_path: Path, authority: Authority):
    fill(tmp_path, authority)
    folder = CredentialsFolder(tmp_path)
    for name, content in zip(
        ("tls.crt", "tls.key"), twice_the_same_extension(authority), strict=True
    ):
        (tmp_path / name).write_bytes(content)
    assert folder.principal == BOOKIE, "those before stay in use"
    with pytest.raises(SettingsError, match=r"tls.crt, expected a certificate that can be parsed"):
        CredentialsFolder(tmp_path)


def test_no_repr_has_a_key(tmp_path: Path, authority: Authority):
    current = CredentialsFolder(fill(tmp_path, authority)).current
    assert "PRIVATE" not in repr(current) + repr(authority) + repr(authority.to_issued())


def test_only_authenticated_ciphers_are_offered(tmp_path: Path, authority: Authority):
    folder = CredentialsFolder(fill(tmp_path, authority))
    for context in (folder.server_context(), folder.client_context()):
        names = [cipher["name"] for cipher in context.get_ciphers()]
        assert names and all("GCM" in name or "POLY1305" in name for name in names)
        assert all(name.startswith(("TLS_", "ECDHE-")) for name in names)


def test_a_control_plane_is_given_renewed_files_once(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others that it needs not may be freed under a handshake (grpc/grpc#36693)."""
    asked: list[Callable[[], object]] = []

    def take(_first: object, changed: Callable[[], object], **_more: object) -> None:
        asked.append(changed)

    monkeypatch.setattr("bookie.tls.credentials.HANDSHAKES_SETTLE_S", 0.0)
    monkeypatch.setattr(
        "grpc.dynamic_ssl_server_credentials",
        lambda _first, changed, **_more: asked.append(changed),
    )
    CredentialsFolder(fill(tmp_path, authority)).server_credentials()
    [changed] = asked
    assert changed() is None
    for _ in range(3):
        fill(tmp_path, authority)
        assert changed() is not None
        assert changed() is changed() is None
    (tmp_path / "tls.key").write_bytes(b"half a key")
    assert changed() is None, "those before stay in use"


class LookedAtByAnother(CredentialsFolder):
    """Each time it has told what is current, another thread looks, and finds renewed files."""

    renew: Callable[[], object] = staticmethod(lambda: None)

    @property
    def current(self) -> Credentials:
        found = super().current
        self.renew()
        super().look()
        return found


def test_a_look_of_another_thread_takes_no_renewal_from_the_control_plane(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Callable[[], object]] = []
    monkeypatch.setattr("bookie.tls.credentials.HANDSHAKES_SETTLE_S", 0.0)
    monkeypatch.setattr(
        "grpc.dynamic_ssl_server_credentials",
        lambda _first, changed, **_other: asked.append(changed),
    )
    folder = LookedAtByAnother(fill(tmp_path, authority))
    folder.server_credentials()
    folder.renew = lambda: fill(tmp_path, authority)
    assert asked[0]() is None  # nothing new yet, and the renewal comes right now
    folder.renew = lambda: None
    assert asked[0]() is not None
