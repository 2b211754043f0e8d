"""Settings of the embedded ZooKeeper: its configuration file, its Java command line, its TLS.

With TLS there is one port. Every client shows a certificate that an authority in `ca.crt` has
signed, also for ZooKeeper's four-letter commands; only TLS 1.2 and 1.3 are allowed. ZooKeeper
identifies a connection by the subject of its certificate (`Principal.x509_name`). The fleet's
subject is its super user, so that a repair can repair ledgers that a client of Apache's has
reserved for itself (zkEnableSecurity). With `plain` the same port also takes connections without
TLS, which are anonymous.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.hosts import bare, is_wildcard, loopback
from bookie.metadata.java_stores import KEYSTORE, TRUSTSTORE, write_stores
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Role

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM_FLAGS: Final = (
    "-Xss512k",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",  # else a server without memory neither answers nor ends
)
PRIVATE: Final = 0o700
LOGGING: Final = "log4j2.properties"
REFUSALS_LOGGED_AT_ONCE: Final = 20
REFUSALS_LOGGED_PER_S: Final = 0.05
"""Limits for log lines about failed handshakes: each TCP probe makes one, and so does each try of a
stranger."""
HANDSHAKES_AT_ONCE_MAX: Final = 256
"""How many connections may be in their handshake; further ones are closed, and their clients
connect again."""


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """Settings of the server. `tick_ms`: ZooKeeper's tick; session timeouts may be between 2 and 60
    ticks.

    `fsync`: without it writes are cheap but a power cut is fatal; for tests only. `bind`: the
    address to listen on, None = the loopback; a wildcard means every address of both families.
    `tls`: the folder with the server's credentials, None = no TLS. `plain`: with `tls`, also take
    connections without TLS, while a fleet moves from one to the other.
    """

    tick_ms: int = 500
    heap_mb: int = 128
    fsync: bool = True
    preallocate_kb: int = 256
    bind: str | None = None
    tls: Path | None = None
    plain: bool = False


def write_configuration(directory: Path, *, port: int, settings: EmbeddedSettings) -> None:
    """Write the server's configuration files into its folder."""
    lines = (
        f"dataDir={directory / 'data'}",
        *_listening(port, settings),
        f"tickTime={settings.tick_ms}",
        f"maxSessionTimeout={settings.tick_ms * 60}",
        f"preAllocSize={settings.preallocate_kb}",
        "admin.enableServer=false",
        "4lw.commands.whitelist=conf,mntr,ruok,srvr",
        "maxClientCnxns=0",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
        *_secured(directory, settings),
    )
    (directory / "zoo.cfg").write_text("".join(map(_property, lines)), encoding="ascii")
    (directory / LOGGING).write_text("\n".join(_logging()) + "\n", encoding="utf-8")


def prepare_stores(directory: Path, settings: EmbeddedSettings) -> None:
    """Write the credentials in the form that the server reads; SettingsError when they cannot be
    used.
    """
    if settings.tls is not None:
        principal = CredentialsFolder(settings.tls).principal
        if principal is not None and principal.role is not Role.ZOOKEEPER:
            raise SettingsError(
                f"found the certificate of {principal} in {settings.tls}, expected that of a "
                f"{Role.ZOOKEEPER.value}: clients would refuse it"
            )
        stores_of(directory).mkdir(mode=PRIVATE, exist_ok=True)
        write_stores(settings.tls, stores_of(directory))


def stores_of(directory: Path) -> Path:
    """The folder from which the server reads its credentials. It has no other files, as ZooKeeper
    watches all of it.
    """
    return directory / "tls"


def server_environment() -> dict[str, str]:
    """The server's environment: in another locale Java would take the bytes of a folder's name for
    other characters.
    """
    return os.environ | {"LC_ALL": "C.UTF-8"}


def _property(line: str) -> str:
    """A line as Java reads it back from a file of properties, which it takes for ISO-8859-1."""
    units = line.replace("\\", "\\\\").encode("utf-16-be")
    numbers = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(one) if one < 0x7F else f"\\u{one:04x}" for one in numbers) + "\n"


def server_command(
    java: Path, jars: list[Path], *, directory: Path, settings: EmbeddedSettings
) -> list[str]:
    """The command line of the server."""
    return [
        str(java),
        f"-Xmx{settings.heap_mb}m",
        *JVM_FLAGS,
        f"-Dzookeeper.forceSync={'yes' if settings.fsync else 'no'}",
        "-Dzookeeper.jmx.log4j.disable=true",
        f"-Dlog4j2.configurationFile={(directory / LOGGING).as_uri()}",
        "-cp",
        os.pathsep.join(str(jar) for jar in jars),
        MAIN_CLASS,
        str(directory / "zoo.cfg"),
    ]


def _listening(port: int, settings: EmbeddedSettings) -> tuple[str, ...]:
    """The lines about port and address. Without an address the server listens on all, of both
    families if the machine has both.
    """
    kind = "clientPort" if settings.tls is None or settings.plain else "secureClientPort"
    if settings.bind is not None and is_wildcard(settings.bind):
        return (f"{kind}={port}",)
    return f"{kind}={port}", f"{kind}Address={bare(settings.bind) if settings.bind else loopback()}"


def _logging() -> tuple[str, ...]:
    """The logging configuration: errors to standard output, as without a file, but limited so that
    a stranger cannot fill the disk.
    """
    return (
        "appender.all.type=Console",
        "appender.all.name=all",
        "appender.all.layout.type=PatternLayout",
        "appender.all.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %t %p %m%n%ex",
        "rootLogger.level=error",
        "rootLogger.appenderRef.all.ref=all",
        "logger.network.name=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "logger.network.level=error",
        "logger.network.filter.burst.type=BurstFilter",
        "logger.network.filter.burst.level=ERROR",
        f"logger.network.filter.burst.rate={REFUSALS_LOGGED_PER_S}",
        f"logger.network.filter.burst.maxBurst={REFUSALS_LOGGED_AT_ONCE}",
    )


def _secured(directory: Path, settings: EmbeddedSettings) -> tuple[str, ...]:
    if settings.tls is None:
        return ()
    principal = CredentialsFolder(settings.tls).principal
    return (
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        f"client.portUnification={str(settings.plain).lower()}",
        f"ssl.keyStore.location={stores_of(directory) / KEYSTORE}",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={stores_of(directory) / TRUSTSTORE}",
        "ssl.trustStore.type=JKS",
        "ssl.clientAuth=need",
        "ssl.enabledProtocols=TLSv1.3,TLSv1.2",
        "client.certReload=true",
        f"netty.server.outstandingHandshake.limit={HANDSHAKES_AT_ONCE_MAX}",
        *(
            ()
            if principal is None
            else (f"X509AuthenticationProvider.superUser={principal.x509_name}",)
        ),
    )
