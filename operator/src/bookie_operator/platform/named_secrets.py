"""Secrets that the spec names: which, and what is wrong with what lies there. Pure.

Judged by the very functions by which bookies and stores read them, so that what is called usable
here can be used there.
"""

from typing import Final, NamedTuple

from bookie.errors import SettingsError
from bookie.metadata.login import parse_login
from bookie.wire.stock.users import parse_users

from bookie_operator.model.authentication import LOGIN_KEY, USERS_KEY
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.observed import NamedSecret
from bookie_operator.plan.named_secrets import KEY_MISSING, LOGIN_FIELD, MISSING, UNUSABLE
from bookie_operator.platform.credential_files import Files

REALM: Final = "bookkeeper"
"""Realm of users; Apache's clients know no other."""


class Wanted(NamedTuple):
    """What the spec names."""

    field: str
    """Where it stands there."""
    name: str
    """Of the Secret, or of the folder."""
    key: str
    """Of the entry, or of the file in the folder."""


def wanted_secrets(spec: ClusterSpec) -> list[Wanted]:
    found = []
    if spec.authentication is not None and spec.authentication.users_secret is not None:
        name = spec.authentication.users_secret
        found.append(Wanted("authentication.usersSecret", name, USERS_KEY))
    login = login_secret(spec)
    return [*found, login] if login is not None else found


def login_secret(spec: ClusterSpec) -> Wanted | None:
    """The Secret with the fleet's ZooKeeper user; None: it has none."""
    name = spec.metadata.credentials_secret
    return Wanted(LOGIN_FIELD, name, LOGIN_KEY) if name is not None else None


def judged(wanted: Wanted, files: Files | None, *, place: str) -> NamedSecret:
    """`files`: by key; None: there is no such Secret. `place`: what people call it."""
    seen = NamedSecret(wanted.field, f"key {wanted.key} of {place}")
    if files is None:
        said = f"{place} is not there, expected it with the key {wanted.key}: make it"
        return NamedSecret(seen.field, seen.place, MISSING, said)
    if wanted.key not in files:
        found = ", ".join(sorted(files)) or "none"
        said = f"{place} has no key {wanted.key}, found {found}: add it"
        return NamedSecret(seen.field, seen.place, KEY_MISSING, said)
    try:
        _read(wanted, files[wanted.key], seen.place)
    except SettingsError as error:
        return NamedSecret(seen.field, seen.place, UNUSABLE, f"{seen.place}: {error}")
    return seen


def _read(wanted: Wanted, content: bytes, place: str) -> None:
    """SettingsError: it makes no sense. It repeats nothing of the content."""
    if wanted.key == LOGIN_KEY:
        parse_login(content, place)
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise SettingsError("it is no UTF-8, expected lines NAME:bookkeeper:KEY") from None
    parse_users(text, REALM)
