"""Certificates of a run, made when a test first asks for them, and who is told where they are.

The bookies' and a client's are of one authority, the stranger's of another. PEM files, and for
clients the same as PKCS#12 and JKS stores, `NAME.p12` and `NAME.jks`, under `PASSWORD`.
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


class Certificates:
    """See the module; ApacheError from the first use where a tool is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "certificates"

    def folder(self, _words: Sequence[str] = ()) -> Path:
        """Where they are."""
        if not self._folder.exists():
            self._folder.mkdir()
            self._make()
        return self._folder

    def _make(self) -> None:
        ours, others = Authority.make(self._folder, "ours"), Authority.make(self._folder, "others")
        ours.sign("bookie", Role.BOOKIE)
        ours.sign("client")
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

    def for_ours(self) -> str:
        """What goes behind the settings of one of our bookies."""
        return yaml.safe_dump({"tls": {"directory": str(self.folder() / "bookie")}})

    def for_apache(self) -> str:
        """The same for one of Apache's, which need a plugin to refuse who goes without."""
        folder = self.folder()
        settings = {
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": folder / "bookie.key",
            "tlsCertificatePath": folder / "bookie.pem",
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": folder / "ours.pem",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())
