"""Principals of a run, and the KDC that gives them tickets; a test of these is skipped without one.

A client takes the section of the JAAS file that its settings name, as with a password.
"""

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from bookie.testing.kdc import HOST, OTHER, REALM, Kdc, NoKdcError

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
CLIENTS: Final = {
    "Ticket": f"bookkeeper-hd@{REALM}",
    "TicketOfAStranger": f"eve@{REALM}",
    "TicketOfAnotherRealm": f"bookkeeper-hd@{OTHER}",
}
"""The principal of each section."""
BOOKIE: Final = f"bookkeeper/{HOST}@{REALM}"
HOSTS: Final = sorted({socket.gethostname(), socket.getfqdn(HOST)} - {HOST})
"""What Apache's client takes for the bookie's host at times: its own, or what DNS makes of it."""
ELSEWHERE: Final = "elsewhere"
"""Another service, to which everybody gets tickets, too."""


class NoTicketsError(Exception):
    """What is missing for them."""


@dataclass(frozen=True, slots=True)
class Tickets:
    """See the module."""

    keytab: Path
    """Of our bookies: all are on one machine, and so one service."""
    replay_cache: Path
    """Theirs: what one has seen none takes."""
    configuration: Path
    """Of Kerberos, for clients and bookies."""
    sections: str
    """For the JAAS file."""

    @classmethod
    def made(cls, folder: Path, stack: ExitStack) -> "Tickets":
        """The KDC ends with the stack. NoTicketsError names what is missing."""
        try:
            import gssapi  # noqa: F401
        except ImportError as error:
            raise NoTicketsError(f"no package gssapi, extra kerberos ({error})") from error
        try:
            kdc = stack.enter_context(Kdc.start(folder / "kdc"))
        except NoKdcError as error:
            raise NoTicketsError(str(error)) from error
        sections = "\n".join(_section(name, who, kdc.add(who)) for name, who in CLIENTS.items())
        keytab = kdc.add(BOOKIE)
        for host in HOSTS:
            kdc.add(beside := f"bookkeeper/{host}@{REALM}")
            kdc.put(beside, keytab)
        for host in (HOST, *HOSTS):
            kdc.add(f"{ELSEWHERE}/{host}@{REALM}")
        return cls(keytab, folder / "replays", kdc.configuration, sections)

    @property
    def jvm_flag(self) -> str:
        return f"-Djava.security.krb5.conf={self.configuration}"

    def for_ours(self) -> str:
        """What goes behind the settings of one of our bookies."""
        wanted = {
            "mechanisms": ["gssapi"],
            "keytab": str(self.keytab),
            "principal": BOOKIE,
            "replayCache": str(self.replay_cache),
        }
        return yaml.safe_dump({"authentication": wanted})


def _section(name: str, principal: str, keytab: Path) -> str:
    return (
        f'{name} {{ {MODULE} required useKeyTab=true keyTab="{keytab}" storeKey=true '
        f'useTicketCache=false principal="{principal}"; }};'
    )
