"""What ZooKeeper's Java reads of a folder of credentials."""

import subprocess
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.metadata.java import find_java
from bookie.metadata.java_stores import KEYSTORE, TRUSTSTORE, write_stores
from bookie.tls.principals import Role
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding
from tls_fleet import TlsFleet


@pytest.fixture
def fleet(tmp_path: Path) -> TlsFleet:
    return TlsFleet(tmp_path / "tls")


def test_key_and_certificate_lie_in_one_file_that_others_cannot_read(
    fleet: TlsFleet, tmp_path: Path
) -> None:
    folder = fleet.folder(Role.ZOOKEEPER)
    write_stores(folder, tmp_path)
    written = (tmp_path / KEYSTORE).read_bytes()
    assert written == (folder / "tls.key").read_bytes() + (folder / "tls.crt").read_bytes()
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in (KEYSTORE, TRUSTSTORE)} == {0o600}


@pytest.mark.process
def test_two_authorities_of_one_name_are_both_trusted(fleet: TlsFleet, tmp_path: Path) -> None:
    both = fleet.authority.pem + fleet.new_authority().pem
    write_stores(fleet.folder(Role.ZOOKEEPER, trusting=both), tmp_path)
    words = ["-list", "-keystore", str(tmp_path / TRUSTSTORE), "-storepass", ""]
    keytool = find_java().with_name("keytool")
    listed = subprocess.run([keytool, *words], capture_output=True, text=True, check=False)
    assert listed.stdout.count("trustedCertEntry") == 2, listed


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_files_that_do_not_fit_leave_what_was_written_before(
    fleet: TlsFleet, tmp_path: Path, name: str
) -> None:
    folder = fleet.folder(Role.ZOOKEEPER)
    write_stores(folder, tmp_path)
    before = [(tmp_path / name).read_bytes() for name in (KEYSTORE, TRUSTSTORE)]
    (folder / name).write_bytes(b"half")
    with pytest.raises(SettingsError, match=str(folder)):
        write_stores(folder, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in (KEYSTORE, TRUSTSTORE)] == before


def test_a_key_in_openssl_own_form_is_named(fleet: TlsFleet, tmp_path: Path) -> None:
    key = fleet.folder(Role.ZOOKEEPER) / "tls.key"
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    own = serialization.PrivateFormat.TraditionalOpenSSL
    pem = loaded.private_bytes(Encoding.PEM, own, serialization.NoEncryption())
    key.write_bytes(pem)
    with pytest.raises(SettingsError, match=r"tls.key in another form, expected a PKCS#8 key"):
        write_stores(key.parent, tmp_path)
