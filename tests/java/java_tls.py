"""Certificates of a run, made when a test first asks for them, and who is told where they are.

Those of the fleet and its client are of one authority, the stranger's of another. PEM files; for
clients the same as PKCS#12 and JKS stores, `NAME.p12` and `NAME.jks`, under `PASSWORD`; for the
ZooKeeper client of a JVM key and certificate in one file, `NAME.keystore`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml
from bookie.testing.apache import run_command
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role

PASSWORD: Final = "password"
STORES: Final = {"p12": "PKCS12", "jks": "JKS"}
CLIENT, PERSON, ZOOKEEPER = "client", "person", "zookeeper"
SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"


class Certificates:
    """See the module; ApacheError from the first use where a tool is missing."""

    def __init__(self, folder: Path, bookies: Sequence[str]) -> None:
        self._folder = folder / "certificates"
        self._roles = {CLIENT: Role.CLIENT, PERSON: Role.PERSON, ZOOKEEPER: Role.ZOOKEEPER}
        """Of everybody, by name. A bookie's name is its id: our own client asks for it."""
        self._roles |= dict.fromkeys(bookies, Role.BOOKIE)

    def folder(self, _words: Sequence[str] = ()) -> Path:
        """Where they are."""
        if not self._folder.exists():
            self._folder.mkdir()
            self._make()
        return self._folder

    def _make(self) -> None:
        ours, others = Authority.make(self._folder, "ours"), Authority.make(self._folder, "others")
        for name, role in self._roles.items():
            made = ours.sign(name, role)
            both = made.key.read_bytes() + made.certificate.read_bytes()
            made.key.with_suffix(".keystore").write_bytes(both)
        others.sign("stranger")
        (self._folder / "password").write_text(PASSWORD, encoding="ascii")
        client, trust = self._folder / "client", self._folder / "ours"
        secret = f"pass:{PASSWORD}"
        run_command(["openssl", "pkcs12", "-export", "-in", f"{client}.pem", "-inkey",
                     f"{client}.key", "-out", f"{client}.p12", "-passout", secret])  # fmt: skip
        run_command(["keytool", "-importkeystore", "-noprompt", "-srckeystore", f"{client}.p12",
                     "-srcstorepass", PASSWORD, "-destkeystore", f"{client}.jks",
                     "-deststoretype", "JKS", "-deststorepass", PASSWORD])  # fmt: skip
        for ending, kind in STORES.items():
            run_command(["keytool", "-importcert", "-noprompt", "-alias", "ours", "-file",
                         f"{trust}.pem", "-keystore", f"{trust}.{ending}",
                         "-storetype", kind, "-storepass", PASSWORD])  # fmt: skip

    def for_ours(self, bookie_id: str) -> str:
        """What goes behind the settings of one of our bookies."""
        return yaml.safe_dump({"tls": {"directory": str(self.folder() / bookie_id)}})

    def jvm_flags(self, name: str) -> tuple[str, ...]:
        """Of a JVM whose ZooKeeper client comes under TLS, as this one at first."""
        settings = {
            "client.secure": "true",
            "clientCnxnSocket": SOCKET,
            "ssl.keyStore.type": "PEM",
            "ssl.keyStore.location": self.folder() / f"{name}.keystore",
            "ssl.trustStore.type": "PEM",
            "ssl.trustStore.location": self.folder() / "ours.pem",
        }
        return tuple(f"-Dzookeeper.{setting}={value}" for setting, value in settings.items())

    def for_apache(self, bookie_id: str) -> str:
        """The same for one of Apache's, which need a plugin to refuse who goes without."""
        folder = self.folder()
        settings = {
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": folder / f"{bookie_id}.key",
            "tlsCertificatePath": folder / f"{bookie_id}.pem",
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": folder / "ours.pem",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())
