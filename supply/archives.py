"""Archives of a release: the same bytes whenever, and wherever, they are made."""

import gzip
import io
import tarfile
from collections.abc import Mapping


def archive_of(files: Mapping[str, tuple[bytes, int]], moment: int) -> bytes:
    """A .tar.gz of these: content and rights by name. The same bytes each time."""
    whole = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=whole, mode="wb", filename="", mtime=moment) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, (content, mode) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), mode, moment
            archive.addfile(member, io.BytesIO(content))
    return whole.getvalue()
