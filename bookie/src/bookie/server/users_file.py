"""The users with passwords: a file as `htdigest` writes it, with one `name:realm:key` a line.

The key is the MD5 of `name:realm:password` in hex: whoever has it can authenticate as this user
here, but does not have the password. Lines of other realms are ignored. A changed file is read
before the next exchange. If it cannot be read or is malformed then, the former users stay: an
outage of a secret is no reason to refuse everybody.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.wire.stock.digest_md5 import Keys
from bookie.wire.stock.users import parse_users

log = logging.getLogger(__name__)

SETTING: Final = "authentication.usersFile"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024

Stamp = tuple[int, int, int] | None


class UsersFile:
    """The keys of the users in the file; SettingsError when the first read fails."""

    def __init__(self, path: Path, realm: str) -> None:
        self._path = path
        self._realm = realm
        self._stamp = _stamp(path)
        """The stamp of the file at the last read, whether or not that succeeded."""
        self._keys = _read(path, realm)

    def keys(self) -> Keys:
        """The present keys by user; reads the file again if it has changed."""
        # One call of stat for each exchange, without a thread: the hashing takes longer than that.
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read_again()
        return self._keys

    def _read_again(self) -> None:
        # Without a thread: it happens only when the file changes, and takes a microsecond a user.
        try:
            self._keys = _read(self._path, self._realm)
            log.info("%s was read again: %d users", self._path, len(self._keys))
        except SettingsError as error:
            log.warning("the earlier users stay in use: %s", error)


def _read(path: Path, realm: str) -> Mapping[str, bytes]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise SettingsError(f"it is longer than {FILE_BYTES_MAX} bytes")
        return parse_users(data.decode("utf-8"), realm)
    except OSError as error:
        why = f"found {path}, which cannot be read ({error.strerror}), expected a file of users"
        raise SettingsError(f"{SETTING}: {why}") from error
    except UnicodeDecodeError:
        # Not chained, as the cause shows the file's content.
        raise SettingsError(f"{SETTING}: found {path}, which is no UTF-8") from None
    except SettingsError as error:
        raise SettingsError(f"{SETTING}: found {path}: {error}") from error


def _stamp(path: Path) -> Stamp:
    """A value that changes when the file does; None when there is no file."""
    try:
        stat = os.stat(path)  # follows links: Kubernetes renews a secret by its link
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
