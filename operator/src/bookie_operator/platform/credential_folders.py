"""Credentials in folders that change as a whole: a link leads to the files of now.

`DIR/NAME` is a link to `DIR/.NAME.<mark>`, which never changes: who reads through the link has the
old files or the new ones, and a renewal is seen by `stat`. Nobody but this user may read them.
"""

import asyncio
import os
import secrets
import shutil
from pathlib import Path
from typing import Final

from bookie.tls.principals import Principal, Role

from bookie_operator.errors import LocalError
from bookie_operator.platform.credential_files import Files

AUTHORITY: Final = "ca"
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
MARK_BYTES: Final = 8


def read_folder(path: Path) -> Files | None:
    """The files there; None = there is no such folder. Blocking."""
    try:
        return {one.name: one.read_bytes() for one in sorted(path.iterdir()) if one.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LocalError(f"{path} cannot be read ({error.strerror}): mend its rights") from error


def replace_folder(path: Path, files: Files) -> None:
    """The folder has these files, all at once; what was there before goes. Blocking."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(MARK_BYTES)}")
        fresh.mkdir(mode=PRIVATE_FOLDER)
        for name, content in files.items():
            _write(fresh / name, content)
        link = fresh.with_name(f"{fresh.name}.new")
        link.symlink_to(fresh.name)
        _drop_real(path)
        link.replace(path)
        _drop_others(path, fresh)
    except OSError as error:
        raise LocalError(f"{path} cannot be written: {error.strerror}") from error


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def drop_folder(path: Path) -> None:
    """There is none any more. Blocking."""
    try:
        _drop_real(path)
        path.unlink(missing_ok=True)
        _drop_others(path, None)
    except OSError as error:
        raise LocalError(f"{path} cannot be taken away: {error.strerror}") from error


def _drop_real(path: Path) -> None:
    """A folder that somebody put in the place of the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def _drop_others(path: Path, fresh: Path | None) -> None:
    """Delete former versions of the folder, and what a crash has left."""
    for one in path.parent.glob(f".{path.name}.*"):
        if one == fresh:
            continue
        if one.is_symlink():
            one.unlink(missing_ok=True)
        else:
            shutil.rmtree(one, ignore_errors=True)


def folder_name(holder: Principal | None) -> str:
    """`bookie-bookie-0`, `operator-operator`; None: the authority."""
    return AUTHORITY if holder is None else f"{holder.role.value}-{_path_part(holder.name)}"


def person_folder(root: Path, name: str) -> Path:
    """The folder of this person's credentials, whether or not it is there."""
    return root / folder_name(Principal("", "", Role.PERSON, name))


def _path_part(name: str) -> str:
    """A person's name may be anything."""
    return "".join(one if one.isalnum() or one in "-_" else "_" for one in name)


class FolderVault:
    """Credentials of one cluster below one directory; files are read and written in a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, holder: Principal | None) -> Path:
        return self.root / folder_name(holder)

    async def read(self, holder: Principal | None) -> Files | None:
        return await asyncio.to_thread(read_folder, self.folder(holder))

    async def write(self, holder: Principal | None, files: Files) -> None:
        await asyncio.to_thread(replace_folder, self.folder(holder), files)

    async def drop(self, holder: Principal) -> None:
        await asyncio.to_thread(drop_folder, self.folder(holder))
