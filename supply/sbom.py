"""A bill of materials for each image, as CycloneDX: what lies in it, not what was meant to.

`python supply/sbom.py --out FOLDER IMAGE...` writes PART.cdx.json; of an archive of the plugin,
NAME-OS-ARCH.tar.gz in place of an image, NAME-OS-ARCH.cdx.json. Debian's packages are those of
its own list, Python's those that are installed, Java's the jars, as their own poms name them.
"""

import argparse
import hashlib
import io
import os
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import IO, Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from image_files import exported, image_id, members, part_of
from packageurl import PackageURL
from single_file import NAME

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = re.compile(r"opt/bookie/lib/python3[^/]*/site-packages/[^/]+\.dist-info/METADATA")
IN_ONE_FILE: Final = re.compile(r"site-packages/[^/]+\.dist-info/METADATA")
JAR: Final = re.compile(r".*/([^/]+)\.jar")
ARCHIVE: Final = ".tar.gz"
DEBIAN: Final = "var/lib/dpkg/status"
Entry = tuple[tarfile.TarInfo, IO[bytes] | None]


def components(entries: Iterable[Entry]) -> Iterator[Component]:
    for member, content in entries:
        path = member.name.removeprefix("./")
        if content is None:
            continue
        if path == DEBIAN:
            yield from of_debian(content.read().decode("utf-8"))
        elif PYTHON.fullmatch(path):
            yield of_python(content.read().decode("utf-8"))
        elif found := JAR.fullmatch(path):
            yield of_java(found[1], content.read())


def of_plugin(archive: Path) -> Iterator[Component]:
    """What lies in the one file: `kubectl-bookie`, as shiv packed it."""
    with tarfile.open(archive) as tar:
        program = tar.extractfile(NAME)
        assert program is not None
        with zipfile.ZipFile(io.BytesIO(program.read())) as packed:
            for name in packed.namelist():
                if IN_ONE_FILE.fullmatch(name):
                    yield of_python(packed.read(name).decode("utf-8"))


def of_debian(status: str) -> Iterator[Component]:
    for text in status.split("\n\n"):
        package = HeaderParser().parsestr(text)
        if "installed" not in package.get("Status", "").split():
            continue
        name, version = package["Package"], package["Version"]
        where = {"arch": package["Architecture"], "distro": "debian-12"}
        yield component(PackageURL("deb", "debian", name, version, where))


def of_python(metadata: str) -> Component:
    package = HeaderParser().parsestr(metadata)
    name = re.sub(r"[-_.]+", "-", package["Name"]).lower()
    return component(PackageURL("pypi", None, name, package["Version"]))


def of_java(stem: str, jar: bytes) -> Component:
    """Of one pom; a jar of several, or of none, goes by its file's name."""
    digest = hashlib.sha256(jar).hexdigest()
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        poms = [
            n for n in archive.namelist() if re.fullmatch(r"META-INF/maven/.+/pom\.properties", n)
        ]
        text = archive.read(poms[0]).decode("utf-8") if len(poms) == 1 else ""
    pom = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    if {"groupId", "artifactId", "version"} <= pom.keys():
        url = PackageURL("maven", pom["groupId"], pom["artifactId"], pom["version"])
    else:
        name, _dash, version = stem.rpartition("-")
        url = PackageURL("generic", None, name or stem, version if name else None)
    return component(url, digest)


def component(url: PackageURL, digest: str = "") -> Component:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else []
    return Component(
        name=url.name, group=url.namespace, version=url.version, purl=url, hashes=hashes,
        type=ComponentType.LIBRARY, bom_ref=f"{url}#{digest}" if digest else str(url),
    )  # fmt: skip


def bill(
    image: str,
    digest: str,
    version: str,
    found: Iterable[Component],
    kind: ComponentType = ComponentType.CONTAINER,
) -> str:
    """`digest`: what docker calls the image. The same image gets the same bill, but for its time:
    that is SOURCE_DATE_EPOCH where there is one."""
    whole = Component(
        name=image, version=version, type=kind, bom_ref=f"{image}@{digest}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))],
    )  # fmt: skip
    parts = sorted(found)
    bom = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, f"{image}@{digest}"))
    bom.metadata.component = whole
    if (moment := os.environ.get("SOURCE_DATE_EPOCH")) is not None:
        bom.metadata.timestamp = datetime.fromtimestamp(int(moment), UTC)
    bom.register_dependency(whole, parts)
    return JsonV1Dot6(bom).output_as_string(indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("images", nargs="+")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for image in asked.images:
        if image.endswith(ARCHIVE):
            path = asked.out / f"{Path(image).name.removesuffix(ARCHIVE)}.cdx.json"
            found = list(of_plugin(Path(image)))
            digest = hashlib.sha256(Path(image).read_bytes()).hexdigest()
            kind = ComponentType.APPLICATION
        else:
            path = asked.out / f"{part_of(image)}.cdx.json"
            with exported(image) as archive:
                found = list(components(members(archive)))
            digest, kind = image_id(image), ComponentType.CONTAINER
        name = Path(image).name if kind is ComponentType.APPLICATION else image
        text = bill(name, digest, project["version"], found, kind)
        path.write_text(text, encoding="utf-8")
        print(f"{path}: {len(found)} components")


if __name__ == "__main__":
    main()
