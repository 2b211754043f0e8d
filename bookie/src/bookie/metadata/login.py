"""Reads a file of credentials for ZooKeeper's own authentication: YAML with scheme, user and
password.

`scheme` is `digest`, which every ZooKeeper accepts, and which identifies a user by name and
password together; or `sasl` (DIGEST-MD5), for servers with a JAAS file, which identifies a user by
the name alone, so that passwords can change. The password is never printed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from kazoo.security import Id, make_digest_acl_credential
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from bookie.errors import SettingsError
from bookie.yaml_text import parse_yaml

DIGEST: Final = "digest"
SASL: Final = "sasl"
FORM: Final = "expected YAML with scheme (digest or sasl), user and password"
FAILED: Final = "authentication failed"
"""How a message about a wrong login begins."""


class Login(BaseModel):
    """One user of a ZooKeeper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: Literal["digest", "sasl"]
    user: str = Field(min_length=1, pattern=r"^[^:\s]+$")
    password: SecretStr

    @property
    def name(self) -> Id:
        """The user's name in access lists."""
        if self.scheme == SASL:
            return Id(SASL, self.user)
        return Id(DIGEST, make_digest_acl_credential(self.user, self.secret))

    @property
    def secret(self) -> str:
        return self.password.get_secret_value()

    def __str__(self) -> str:
        return f"{self.scheme}:{self.user}"


def read_login(path: Path) -> Login:
    """Read a login; SettingsError when the file is malformed, without any of its content."""
    try:
        return parse_login(path.read_bytes(), str(path))
    except OSError as error:
        raise SettingsError(
            f"found {path}, which cannot be read ({error.strerror}), {FORM}"
        ) from error


def parse_login(content: bytes, source: str) -> Login:
    """Parse the content of such a file; `source`: its name in messages."""
    try:
        trees = parse_yaml(content.decode("utf-8"))
    except ValueError:
        # Not chained, as the cause shows the content.
        raise SettingsError(f"found {source}, which is no YAML, {FORM}") from None
    if len(trees) != 1 or not isinstance(trees[0], dict):
        raise SettingsError(f"found {source}, which holds no fields, {FORM}")
    try:
        return Login.model_validate(trees[0])
    except ValidationError as error:
        what = "; ".join(sorted({_wrong(one["loc"], one["msg"]) for one in error.errors()}))
        raise SettingsError(f"found {source} with {what}, {FORM}") from None


def _wrong(place: Sequence[int | str], words: str) -> str:
    """What is wrong with a field. The name of an unknown field is not shown, as it may be a
    password.
    """
    name = str(place[0]) if place else ""
    return f"{name}: {words}" if name in Login.model_fields else "a field of another name"
