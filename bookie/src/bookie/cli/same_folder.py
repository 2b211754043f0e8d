"""One folder that has two names, as by a link or a mount: settings cannot tell, and a bookie would
wait for the lock that it holds itself."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from bookie.errors import SettingsError


def check_differ(directories: Sequence[Path]) -> None:
    """SettingsError when two of these directories are the same folder. Those that are not there, or
    cannot be read, are left to the boot. Blocking.
    """
    for one, other in combinations(directories, 2):
        if _is_same(one, other):
            raise SettingsError(
                f"directories {one} and {other} are the same folder: every disk has its own"
            )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
