"""TLS of a client, which may be a command, a job or the operator: its credentials, and the
authorities that it trusts.

A client never does without TLS because of what a registration says, unless its mode is Accepted.
That mode is for the time in which a fleet moves to TLS, when some bookies have none yet.
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
    """The credentials of a client. `takes_plain`: it connects in plaintext to a server that has no
    TLS.

    The servers of a fleet have names that do not depend on their addresses. The client checks that
    name when its own certificate names a fleet, and otherwise the host that was dialled.
    """

    credentials: CredentialsFolder
    takes_plain: bool = False

    def is_for(self, *, has_tls: bool) -> bool:
        """Whether to connect under TLS to a server that says whether it has TLS."""
        return has_tls or not self.takes_plain

    def context(self) -> ssl.SSLContext:
        """The context for one more connection."""
        return self.credentials.client_context()

    def server_name(self, role: Role, name: str) -> str | None:
        """The name that a server's certificate must have; None: the host that was dialled."""
        own = self.credentials.principal
        return None if own is None else own.peer(role, name).server_name

    def channel_credentials(self) -> Any:
        """The credentials for one gRPC channel."""
        return self.credentials.channel_credentials()


def from_environment(variables: Mapping[str, str] = environ) -> ClientTls | None:
    """The TLS that the environment asks for; None = plaintext. SettingsError when the folder cannot
    be used.
    """
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
    """The folder of credentials, one object for all clients of this process, so that only one
    object looks for changed files.
    """
    return CredentialsFolder(Path(directory))
