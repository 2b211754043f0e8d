"""A file that whoever placed a bookie may write: what nobody knew before the bookie had its place.

On Kubernetes the operator writes it as an annotation of the pod, and the kubelet shows that as
a file, perhaps only after the bookie has begun to serve.
"""

from pathlib import Path


class PlacedFile:
    """One short text, which may be another one each time."""

    def __init__(self, path: Path, *, characters_max: int) -> None:
        self.path = path
        self._characters_max = characters_max
        self._refused = ""
        """What it said last that made no sense, so that the log has it once; empty = nothing."""

    def read(self) -> str | None:
        """What it says now; None where it cannot be read. Of one that is too long a part that is
        too long as well. Blocking."""
        try:
            with self.path.open(encoding="utf-8") as file:
                return file.read(self._characters_max + 1).strip()
        except (OSError, UnicodeDecodeError):
            return None

    def is_news(self, refused: str) -> bool:
        """Whether this text was not the last one that was refused."""
        is_news, self._refused = refused != self._refused, refused
        return is_news
