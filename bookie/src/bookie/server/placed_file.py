"""A file with a fact that is known only once the bookie has a machine; the platform may write it.

On Kubernetes the operator sets an annotation of the pod, and the kubelet writes it to the file,
perhaps only after the bookie has begun to serve.
"""

from pathlib import Path


class PlacedFile:
    """A file with one short text, which may change at any time."""

    def __init__(self, path: Path, *, characters_max: int) -> None:
        self.path = path
        self._characters_max = characters_max
        self._refused = ""
        """The malformed text that was logged last, so that it is logged only once; empty = none."""

    def read(self) -> str | None:
        """Read the text; None when the file cannot be read. A text that is too long is cut to one
        character more than allowed. Blocking.
        """
        try:
            with self.path.open(encoding="utf-8") as file:
                return file.read(self._characters_max + 1).strip()
        except (OSError, UnicodeDecodeError):
            return None

    def is_news(self, refused: str) -> bool:
        """True unless this malformed text is the one that was refused last."""
        is_news, self._refused = refused != self._refused, refused
        return is_news
