"""Files of a built image, streamed from a container that never starts."""

import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def exported(image: str) -> Iterator[IO[bytes]]:
    """A tar stream of all that is in it. RuntimeError: there is no such image, or no docker."""
    made = subprocess.run(["docker", "create", image], capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"docker create {image}: {made.stderr.strip()}")
    name = made.stdout.strip()
    try:
        with subprocess.Popen(["docker", "export", name], stdout=subprocess.PIPE) as export:
            assert export.stdout is not None
            yield export.stdout
            export.stdout.read()
        if export.returncode:
            raise RuntimeError(f"docker export of {image} ended with {export.returncode}")
    finally:
        subprocess.run(["docker", "rm", name], capture_output=True, check=True)


def members(archive: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Each entry with its content; None of what is no plain file."""
    with tarfile.open(fileobj=archive, mode="r|") as tar:
        for member in tar:
            yield member, tar.extractfile(member) if member.isfile() else None


def image_id(image: str) -> str:
    """`sha256:...` of the image's configuration; what a registry calls it is known after a push."""
    found = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{.Id}}", image],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        raise RuntimeError(f"docker image inspect {image}: {found.stderr.strip()}")
    return found.stdout.strip()


def part_of(image: str) -> str:
    """`bookie` of `bookie-operator/bookie:dev`."""
    return re.split("[:@]", image.rpartition("/")[2])[0]
