"""Prints which certificate each server shows now, and by whom it is signed, as JSON.

Run by a bookie's image with credentials of the fleet: `python -c SCRIPT host:port ...`. It connects
anew, as every client does, by the standard library and `cryptography` alone.
"""

import json
import os
import socket
import ssl
import sys
from pathlib import Path

from cryptography import x509

WAIT_S = 5.0


def shown_at(target: str) -> dict[str, str]:
    """Serial number, issuer and end of the certificate, whose authority must be trusted."""
    host, _, port = target.rpartition(":")
    folder = Path(os.environ["BOOKIE_TLS__DIRECTORY"])
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.check_hostname = False
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with (
        socket.create_connection((host, int(port)), WAIT_S) as plain,
        context.wrap_socket(plain) as session,
    ):
        der = session.getpeercert(binary_form=True)
    assert der is not None
    found = x509.load_der_x509_certificate(der)
    key = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    return {
        "serial": f"{found.serial_number:x}",
        "signer": (key.key_identifier or b"").hex(),
        "ends": found.not_valid_after_utc.isoformat(),
    }


if __name__ == "__main__":
    print(json.dumps({target: shown_at(target) for target in sys.argv[1:]}))
