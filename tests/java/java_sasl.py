"""Users of a run: their file for our bookies, and the JAAS file of clients and of Apache's bookies.

A client takes the section of the file that its settings name: who it is, and with which password.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from bookie.wire.stock.digest_md5 import user_key

REALM: Final = "bookkeeper"
USER: Final = "hd"
PASSWORD: Final = "a password with ' and ü in it"
MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
CLIENTS: Final = {
    "BookKeeper": (USER, PASSWORD),
    "Auditor": (USER, PASSWORD),
    "WrongPassword": (USER, "another"),
    "Stranger": ("nobody", PASSWORD),
}
"""User and password of each section."""


@dataclass(frozen=True, slots=True)
class Users:
    """See the module."""

    file: Path
    jaas: Path

    @classmethod
    def made(cls, folder: Path, more: str = "") -> "Users":
        """`more`: other sections of the JAAS file."""
        users = cls(folder / "users", folder / "jaas.conf")
        key = user_key(USER, REALM, PASSWORD).hex()
        users.file.write_text(f"{USER}:{REALM}:{key}\n", encoding="utf-8")
        sections = [
            f'{name} {{ {MODULE} required username="{user}" password="{password}"; }};'
            for name, (user, password) in CLIENTS.items()
        ]
        sections.append(f'Bookie {{ {MODULE} required user_{USER}="{PASSWORD}"; }};')
        users.jaas.write_text("\n".join([*sections, more]), encoding="utf-8")
        return users

    @property
    def jvm_flag(self) -> str:
        return f"-Djava.security.auth.login.config={self.jaas}"

    def for_ours(self, way_in: str) -> str:
        """What goes behind the settings of one of our bookies."""
        wanted = {"mechanisms": [way_in], "usersFile": str(self.file)}
        return yaml.safe_dump({"authentication": wanted})

    def for_apache(self) -> str:
        """The same for one of Apache's, with passwords."""
        factory = "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"
        return f"bookieAuthProviderFactoryClass={factory}\nsaslJaasClientAllowedIds=.*\n"
