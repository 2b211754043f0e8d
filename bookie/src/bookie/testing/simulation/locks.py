"""Locks on a simulated bookie's folders: nobody else is ever there to hold one.

Which folders they are is what matters: a copy on another machine has others.
"""

from collections.abc import Sequence
from pathlib import Path


class NoLock:
    """No other process ever works on these folders."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Takes what the real one takes."""
        self._directories = directories

    def acquire(self) -> None:
        """Free, always."""

    def release(self) -> None:
        """Free, always."""

    def holders(self) -> tuple[str, ...]:
        """Does so to every process on these folders: the one before is gone."""
        return tuple(map(str, self._directories))


class OtherMachine(NoLock):
    """The locks of a copy, on a machine that knows nothing of where the bookie ran before."""

    def holders(self) -> tuple[str, ...]:
        """See FolderLock."""
        return tuple(f"elsewhere {directory}/copy" for directory in self._directories)
