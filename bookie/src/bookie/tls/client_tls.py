"""TLS of a client, be it a command, a job or the operator: its credentials, and whom it trusts.

Nothing that a registration says makes a client go without TLS, unless its mode is Accepted, as it
is while a fleet moves to TLS and some of its bookies have none yet.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import environ
from pathlib import Path
from typing import Any

from bookie.errors import SettingsError
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.environment import ACCEPTED, DIRECTORY_VARIABLE, MODE_VARIABLE, REQUIRED
from bookie.tls.principals import Role


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whose credentials a client shows; `takes_plain`: it goes in plain where a server has no TLS.

    A fleet's servers have a name that no address changes: it is checked where our own certificate
    names a fleet; elsewhere, the host that was dialled.
    """

    credentials: CredentialsFolder
    takes_plain: bool = False

    def is_for(self, *, has_tls: bool) -> bool:
        """To go under TLS to a server that says it has it, or has not."""
        return has_tls or not self.takes_plain

    def context(self) -> ssl.SSLContext:
        """For one more connection."""
        return self.credentials.client_context()

    def server_name(self, role: Role, name: str) -> str | None:
        """What a server's certificate must name; None: the host that was dialled."""
        own = self.credentials.principal
        return None if own is None else own.peer(role, name).server_name

    def channel_credentials(self) -> Any:
        """For one gRPC channel."""
        return self.credentials.channel_credentials()


def from_environment(variables: Mapping[str, str] = environ) -> ClientTls | None:
    """What the environment says; None = plain. SettingsError when the folder cannot be used."""
    directory = variables.get(DIRECTORY_VARIABLE)
    if not directory:
        return None
    mode = variables.get(MODE_VARIABLE) or REQUIRED
    if mode not in (REQUIRED, ACCEPTED):
        raise SettingsError(
            f"environment variable {MODE_VARIABLE}: found {mode!r}, expected {REQUIRED} or "
            f"{ACCEPTED}"
        )
    return ClientTls(_folder(directory), takes_plain=mode == ACCEPTED)


@lru_cache
def _folder(directory: str) -> CredentialsFolder:
    """One for all clients of this process: its files are looked at in one place."""
    return CredentialsFolder(Path(directory))
