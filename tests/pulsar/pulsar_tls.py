"""How a JVM with Apache's clients comes to a fleet under TLS: one folder of credentials, in the
words of BookKeeper's client, of Pulsar's broker and of ZooKeeper's client.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
PROVIDER: Final = "org.apache.bookkeeper.tls.TLSContextFactory"
KEYSTORE: Final = "zookeeper.pem"


@dataclass(frozen=True, slots=True)
class Secured:
    """`broker`, `client`: settings by each one's names; `flags`: of their JVMs. Empty: plain."""

    broker: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, credentials: Path | None, folder: Path) -> "Secured":
        """`credentials`: tls.key, tls.crt and ca.crt; `folder`: for what is made of them."""
        if credentials is None:
            return cls()
        key, certificate, trust = (credentials / name for name in ("tls.key", "tls.crt", "ca.crt"))
        both = folder / KEYSTORE  # ZooKeeper's client wants them in one file
        both.touch(mode=0o600)
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        broker = {
            "bookkeeperTLSProviderFactoryClass": PROVIDER,
            "bookkeeperTLSClientAuthentication": "true",
            "bookkeeperTLSKeyFileType": "PEM",
            "bookkeeperTLSKeyFilePath": str(key),
            "bookkeeperTLSCertificateFilePath": str(certificate),
            "bookkeeperTLSTrustCertTypes": "PEM",
            "bookkeeperTLSTrustCertsFilePath": str(trust),
        }
        client = {
            "tlsProviderFactoryClass": PROVIDER,
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": str(key),
            "tlsCertificatePath": str(certificate),
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": str(trust),
        }
        zookeeper = {
            "client.secure": "true",
            "clientCnxnSocket": SOCKET,
            "ssl.keyStore.type": "PEM",
            "ssl.keyStore.location": str(both),
            "ssl.trustStore.type": "PEM",
            "ssl.trustStore.location": str(trust),
        }
        flags = tuple(f"-Dzookeeper.{name}={value}" for name, value in zookeeper.items())
        return cls(broker, client, flags)
