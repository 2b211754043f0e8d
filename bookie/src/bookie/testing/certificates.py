"""Throwaway certificates for tests of TLS: an authority, and what it signs, made by openssl(1).

Valid for two days, on this machine only (localhost and both loopbacks). Keys are PKCS#8 and not
encrypted.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOL: Final = "openssl"
COMMAND_WAIT_S: Final = 30.0
KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS: Final = ("-days", "2")
LEAF: Final = "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n"


class NoOpensslError(Exception):
    """openssl is not on PATH."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; files are in `folder`, named after whom they are of."""

    folder: Path
    own: Identity

    @classmethod
    def make(cls, folder: Path, name: str) -> "Authority":
        """NoOpensslError where there is none."""
        if shutil.which(TOOL) is None:
            raise NoOpensslError(f"{TOOL} is not on PATH")
        own = Identity(folder / f"{name}.pem", folder / f"{name}.key")
        _openssl("req", "-x509", *KEY, *DAYS, "-subj", f"/CN={name}",
                 "-keyout", own.key, "-out", own.certificate)  # fmt: skip
        return cls(folder, own)

    def sign(self, name: str) -> Identity:
        """A certificate for a server or a client."""
        made = Identity(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(LEAF, encoding="ascii")
        _openssl("req", "-new", *KEY, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
        _openssl("x509", "-req", *DAYS, "-in", request, "-extfile", extensions,
                 "-CA", self.own.certificate, "-CAkey", self.own.key, "-CAcreateserial",
                 "-out", made.certificate)  # fmt: skip
        return made


def _openssl(*words: str | Path) -> None:
    subprocess.run([TOOL, *words], check=True, capture_output=True, timeout=COMMAND_WAIT_S)
