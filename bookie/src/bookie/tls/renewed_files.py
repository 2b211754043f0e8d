"""Files that somebody may renew while their content is in use, such as a mounted secret."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from bookie.errors import SettingsError
from bookie.tls.files import Stamp

log = logging.getLogger(__name__)

Content = TypeVar("Content")


class UnreadableError(SettingsError):
    """A file cannot be read now, so that nobody knows what it says."""


class RenewedFiles(Generic[Content]):
    """The content of a file or a folder, read again at the next look after a change.

    Looks are as frequent as handshakes. While a changed file cannot be read, as when the process
    has no descriptor left, every look tries it again, which costs little. A malformed file is not
    parsed again until it changes. In both cases the earlier content stays in use.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Content],
        *,
        stamp: Callable[[Path], Stamp | tuple[Stamp, ...]],
    ) -> None:
        """`read` makes the content; UnreadableError when a file cannot be read, any other
        SettingsError when it is malformed. `stamp`: a value that changes when a file does.
        """
        self._path = path
        self._read = read
        self._stamp = stamp
        self._turn = threading.Lock()
        """Held during a look: gRPC looks from threads of its own."""
        self._known = stamp(path)
        """The stamp from before the last read that found out what the files say."""
        self._content = read(path)
        self._trouble = ""
        """Why a changed file cannot be read, as it was logged; empty when all could be read."""
        self.generation = 0
        """Rises each time changed files came into use."""

    def look(self) -> Content:
        """The content in use, once changed files were read again."""
        # This makes a few calls of stat, so it needs no thread: a handshake costs a hundred times
        # that. Reading needs none either: it happens once for each renewal and takes milliseconds.
        # `ssl` parses authorities under the interpreter's lock, so the event loop would have to
        # wait anyway.
        with self._turn:
            found = self._stamp(self._path)
            if found != self._known and self._could_read():
                self._known, self._trouble = found, ""
            return self._content

    def _could_read(self) -> bool:
        """Read the files, and use them if they are well-formed."""
        try:
            self._content = self._read(self._path)
            self.generation += 1
            log.info("%s was read again and is in use from now on", self._path)
        except UnreadableError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("the earlier content stays in use: %s", error)
            return False
        except SettingsError as error:
            log.warning("the earlier content stays in use: %s", error)
        return True
