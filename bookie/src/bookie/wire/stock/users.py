"""Parses the users of the stock port from a file that `htdigest` writes: lines `name:realm:key`.
Pure.

The key is the MD5 of `name:realm:password` in hex. The error for a wrong line repeats nothing of
the line.
"""

from collections.abc import Mapping

from bookie.errors import SettingsError
from bookie.wire.stock.digest_md5 import KEY_BYTES


def parse_users(text: str, realm: str) -> Mapping[str, bytes]:
    """The keys of the users of this realm, by name. SettingsError gives the number of a wrong line,
    but nothing of its text.
    """
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, of_realm, key = _fields(line, number)
        if of_realm != realm:
            continue
        if name in keys:
            raise SettingsError(f"line {number} names a user who has a line above, expected one")
        keys[name] = key
    if not keys:
        raise SettingsError(f"found no user of realm {realm}, expected one line NAME:{realm}:KEY")
    return keys


def _fields(line: str, number: int) -> tuple[str, str, bytes]:
    try:
        name, realm, key = line.strip().split(":")
        found = bytes.fromhex(key)
    except ValueError:
        name, realm, found = "", "", b""
    if not name or len(found) != KEY_BYTES:
        raise SettingsError(
            f"line {number} cannot be read, expected NAME:REALM:KEY with the MD5 of "
            "NAME:REALM:PASSWORD as 32 hex digits, as htdigest writes it"
        ) from None
    return name, realm, found
