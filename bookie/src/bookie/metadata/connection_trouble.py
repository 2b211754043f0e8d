"""Explains to people why a connection to ZooKeeper failed: found, expected, what to do. Pure."""

import ssl
from pathlib import Path
from typing import Final

from bookie.tls.files import AUTHORITIES, CERTIFICATE

OUT_OF_TIME: Final = (9, 10)
WRONG_NAMES: Final = (62, 64)
"""OpenSSL's codes for a certificate that is not for the dialled name; OUT_OF_TIME: for one that is
not valid now. Any other code means that no trusted authority has signed it."""
NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
CLOSED: Final = ("UNEXPECTED_EOF_WHILE_READING",)


def trouble_of(error: BaseException, *, where: str, directory: Path | None) -> str:
    """The sentence for an error. `directory`: the folder of our credentials; None for a plain
    connection.
    """
    if directory is None:
        return _of_plain(error, where)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"ZooKeeper at {where}: {_of_its_certificate(error, directory)}"
    if isinstance(error, ssl.SSLError):
        return f"ZooKeeper at {where} {_of_handshake(error, directory)}"
    return f"ZooKeeper at {where} does not answer over TLS ({_said(error)}): check the address"


def _of_plain(error: BaseException, where: str) -> str:
    if isinstance(error, OSError):
        return f"ZooKeeper at {where} does not answer ({_said(error)}): check that it runs"
    return (
        f"ZooKeeper at {where} ends connections before they begin ({_said(error)}): where it "
        "speaks TLS alone, use zks:// and a folder of credentials"
    )


def _of_its_certificate(error: ssl.SSLCertVerificationError, directory: Path) -> str:
    code = getattr(error, "verify_code", None)
    words = getattr(error, "verify_message", None) or error.args[-1]
    if code is None:
        return f"{words}: check the address"
    if code in OUT_OF_TIME:
        return f"{words}, expected one that is valid now: renew it, or set the clock right"
    if code in WRONG_NAMES:
        return f"{words.rstrip('.')}: connect to a name that it has, or add this one to it"
    return (
        f"found a certificate that no authority in {directory / AUTHORITIES} has signed "
        f"({words}): put its authority there, or look who answers in its place"
    )


def _of_handshake(error: ssl.SSLError, directory: Path) -> str:
    reason = error.reason or str(error)
    if reason in NOT_TLS:
        return f"does not speak TLS on this port ({reason}): use zk://, or its port for TLS"
    if reason in CLOSED:
        return f"ended the handshake ({reason}): check that the port is for TLS, and its log"
    return (
        f"refuses {directory / CERTIFICATE} ({reason}): expected a certificate that is valid now "
        "and signed by an authority that it trusts; renew it, or have the server trust its "
        "authority"
    )


def _said(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
