"""The users with passwords: a file as `htdigest` writes it, with one `name:realm:key` a line.

The key is the MD5 of `name:realm:password` in hex: whoever has it can authenticate as this user
here, but does not have the password. Lines of other realms are ignored. A changed file is read
before the next exchange. If it cannot be read or is malformed then, the former users stay: an
outage of a secret is no reason to refuse everybody.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.tls.files import stamp
from bookie.tls.renewed_files import RenewedFiles, UnreadableError
from bookie.wire.stock.digest_md5 import Keys
from bookie.wire.stock.users import parse_users

SETTING: Final = "authentication.usersFile"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024


class UsersFile:
    """The keys of the users in the file; SettingsError when the first read fails."""

    def __init__(self, path: Path, realm: str) -> None:
        self._file = RenewedFiles(path, partial(_read, realm=realm), stamp=stamp)

    def keys(self) -> Keys:
        """The present keys by user; reads the file again if it has changed."""
        # One call of stat for each exchange, without a thread: the hashing takes longer than that.
        # Reading the file takes a microsecond a user.
        return self._file.look()


def _read(path: Path, *, realm: str) -> Mapping[str, bytes]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise SettingsError(f"it is longer than {FILE_BYTES_MAX} bytes")
        return parse_users(data.decode("utf-8"), realm)
    except OSError as error:
        why = f"found {path}, which cannot be read ({error.strerror}), expected a file of users"
        raise UnreadableError(f"{SETTING}: {why}") from error
    except UnicodeDecodeError:
        # Not chained, as the cause shows the file's content.
        raise SettingsError(f"{SETTING}: found {path}, which is no UTF-8") from None
    except SettingsError as error:
        raise SettingsError(f"{SETTING}: found {path}: {error}") from error
