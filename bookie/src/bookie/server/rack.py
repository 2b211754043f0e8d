"""The rack of a bookie, from its settings or else from a file that the platform may write.

On Kubernetes the rack is unknown until the pod has a node. The operator copies it from the node's
labels to an annotation of the pod, and the kubelet writes that to the file, perhaps only after the
bookie has begun to serve.
"""

import logging
import re
from pathlib import Path
from typing import Final

from bookie.server.placed_file import PlacedFile

RACK: Final = re.compile(r"(/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)+")
"""A network location in BookKeeper's form: `/rack-a`, `/region/zone`."""
RACK_BYTES_MAX: Final = 99

log = logging.getLogger(__name__)


class Rack:
    """The rack of one bookie, as known now."""

    def __init__(self, named: str | None, file: Path) -> None:
        """`named`: the rack in the settings, which takes precedence over the file."""
        self._named = named
        self._file = PlacedFile(file, characters_max=RACK_BYTES_MAX)

    def read(self) -> str | None:
        """Return the rack, None when it is unknown. Blocking."""
        if self._named is not None:
            return self._named
        said = self._file.read()
        if said is None:
            return None
        if len(said) <= RACK_BYTES_MAX and RACK.fullmatch(said):
            return said
        if self._file.is_news(said) and said:
            log.warning(
                "%s names no rack: found %.100r, expected /rack or /a/b", self._file.path, said
            )
        return None
