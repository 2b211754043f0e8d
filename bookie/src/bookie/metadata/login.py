"""A file of credentials for ZooKeeper's own authentication: YAML with scheme, user and password.

`scheme`: `digest`, which any ZooKeeper takes, and which names a user by name and password together;
or `sasl` (DIGEST-MD5), for servers with a JAAS file, where the name alone counts, so that passwords
can change. The password is shown nowhere.
"""

from pathlib import Path
from typing import Final, Literal

import yaml
from kazoo.security import Id, make_digest_acl_credential
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from bookie.errors import SettingsError

DIGEST: Final = "digest"
SASL: Final = "sasl"
FORM: Final = "expected YAML with scheme (digest or sasl), user and password"


class Login(BaseModel):
    """One user of a ZooKeeper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: Literal["digest", "sasl"]
    user: str = Field(min_length=1, pattern=r"^[^:\s]+$")
    password: SecretStr

    @property
    def name(self) -> Id:
        """What access lists call it."""
        if self.scheme == SASL:
            return Id(SASL, self.user)
        return Id(DIGEST, make_digest_acl_credential(self.user, self.secret))

    @property
    def secret(self) -> str:
        return self.password.get_secret_value()

    def __str__(self) -> str:
        return f"{self.scheme}:{self.user}"


def read_login(path: Path) -> Login:
    """SettingsError when the file holds no such thing; it never repeats what the file holds."""
    try:
        return parse_login(path.read_bytes(), str(path))
    except OSError as error:
        raise SettingsError(
            f"found {path}, which cannot be read ({error.strerror}), {FORM}"
        ) from error


def parse_login(content: bytes, source: str) -> Login:
    """As `read_login`; `source`: what the content is of, for messages."""
    try:
        tree = yaml.safe_load(content.decode("utf-8"))
        if not isinstance(tree, dict):
            raise SettingsError(f"found {source}, which holds no fields, {FORM}")
        return Login.model_validate(tree)
    except (yaml.YAMLError, UnicodeDecodeError):
        raise SettingsError(f"found {source}, which is no YAML, {FORM}") from None
    except ValidationError as error:
        wrong = {".".join(map(str, one["loc"])): one["msg"] for one in error.errors()}
        what = "; ".join(f"{field}: {message}" for field, message in wrong.items())
        raise SettingsError(f"found {source} with {what}, {FORM}") from None
