"""Why there is no connection, in words that say what to do."""

import ssl
from pathlib import Path

import pytest
from bookie.metadata.connection_trouble import trouble_of
from kazoo.exceptions import ConnectionDropped

FOLDER = Path("/etc/bookie/tls")


def refused(code: int, words: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, words)
    error.verify_code, error.verify_message = code, words
    return error


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused(10, "certificate has expired"), "valid now: renew it, or set the clock right"),
        (refused(9, "certificate is not yet valid"), "valid now: renew it, or set the clock right"),
        (refused(62, "Hostname mismatch, ... 'zk'."), "connect to a name that it has"),
        (refused(64, "IP address mismatch"), "connect to a name that it has"),
        (refused(20, "unable to get local issuer"), "no authority in /etc/bookie/tls/ca.crt"),
        (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "refuses /etc/bookie/tls/tls.crt"),
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "refuses /etc/bookie/tls/tls.crt"),
        (alert("WRONG_VERSION_NUMBER"), "does not speak TLS on this port"),
        (alert("UNEXPECTED_EOF_WHILE_READING"), "check that the port is for TLS"),
        (ConnectionRefusedError(111, "Connection refused"), "(Connection refused)"),
    ],
)
def test_each_trouble_under_tls_is_named(error: Exception, words: str) -> None:
    said = trouble_of(error, where="zk:2181", directory=FOLDER)
    assert "ZooKeeper at zk:2181" in said and words in said


def test_a_plain_client_of_a_port_for_tls_hears_of_it() -> None:
    said = trouble_of(ConnectionDropped("broken"), where="zk:2181", directory=None)
    assert "(broken): where it speaks TLS alone, use zks://" in said
