"""TLS of a bookie's ports: the credentials, and which clients are let in.

The data ports take TLS from a connection's first byte (`tls_front`); the stock port also when a
client asks for it with START_TLS (`stock`). `connections` upgrades a connection.
"""

import logging
import ssl
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bookie.server.settings import Tls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.environment import REQUIRED
from bookie.tls.principals import Principal, names_of_fleets

log = logging.getLogger(__name__)

CLIENTS: Final = {
    "required": ssl.CERT_REQUIRED,
    "optional": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
}


class PortTls:
    """TLS as the settings ask for it; SettingsError when a file is missing or malformed."""

    def __init__(self, settings: Tls) -> None:
        self.is_required = settings.mode == REQUIRED
        """True when clients without TLS are refused."""
        self.handshake_s = settings.handshake_seconds
        self.is_on_http = settings.http
        self.credentials = CredentialsFolder(settings.directory)
        self._clients = CLIENTS[settings.clients]
        """Whether clients of the data ports must show a certificate."""

    def context(self) -> ssl.SSLContext:
        """Make the context for one handshake on a data port, from the files as they are now."""
        return self.credentials.server_context(self._clients)

    def http_context(self) -> ssl.SSLContext:
        """Make the context of the HTTP port for its whole life: each handshake uses the files as
        they are then.

        No client must show a certificate: probes of Kubernetes have none.
        """
        context = self.credentials.server_context(ssl.CERT_NONE)

        def take_newest(connection: ssl.SSLObject, _name: str | None, _old: Any) -> None:
            connection.context = self.credentials.server_context(ssl.CERT_NONE)

        context.sni_callback = take_newest
        return context

    def why_not(self, certificate: Mapping[str, Any] | None) -> str:
        """Why the holder of a verified certificate is refused; empty when it is let in.

        A certificate without a name of a fleet is let in: the owner of the authorities decides who
        is a client. One with several names, or with a malformed one, may be another fleet's. An
        expired one was verified in an earlier handshake whose session the client resumed: OpenSSL
        does not check the time then.
        """
        if certificate and ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time():
            return f"its certificate ended at {certificate['notAfter']}"
        own, found = self.credentials.principal, Principal.of_certificate(certificate)
        if own is None or (found is not None and found.is_of_fleet_of(own)):
            return ""
        if found is None:
            names = names_of_fleets(certificate)
            return (
                f"its certificate has the names {names}, expected one of a fleet" if names else ""
            )
        return f"its certificate is of {found}, expected one of {own.namespace}/{own.cluster}"

    @property
    def ends_at(self) -> datetime:
        """When the certificate in use expires."""
        return self.credentials.current.leaf.not_valid_after_utc
