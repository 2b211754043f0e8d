"""A folder of credentials: what it must hold, and what a change of its files does."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.tls.authority import Authority
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Principal, Role
from cryptography.hazmat.primitives import serialization

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
