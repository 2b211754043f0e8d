"""Images of the product with a bug: those that are built, with patched files in a layer on top."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from harness.commands import run
from harness.settings import IMAGES, TAG
from mutant import Patch
from mutant_overlay import ROOT, replaced_once

PLANTED: Final = "planted"
"""The tag of these images."""
SOURCES: Final = {"bookie/src": ("bookie", "repair"), "operator/src": ("operator",)}
"""Where code lies, and the images that run it."""
DOCKERFILE: Final = """\
ARG BASE
FROM ${{BASE}}
USER 0
COPY src /planted
RUN site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \\
    cp -r /planted/. "$site" && cd "$site" && \\
    python -m compileall -q -f --invalidation-mode unchecked-hash {files}
USER {user}
"""
BUILD_S: Final = 180.0


def plant(patches: Iterable[Patch], folder: Path) -> list[str]:
    """Gives all three images the tag, with the patches where they belong; the patched ones."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = patched(patches)
    images = []
    for image in IMAGES:
        name = image.removesuffix(f":{TAG}")
        mine = {
            file: text for file, text in texts.items() if name.rpartition("/")[2] in _ran_by(file)
        }
        if mine:
            _build(image, f"{name}:{PLANTED}", mine, folder)
            images.append(name)
        else:
            run(("docker", "tag", image, f"{name}:{PLANTED}"))
    assert images, f"no image runs {', '.join(texts)}"
    return images


def patched(patches: Iterable[Patch]) -> dict[str, str]:
    """The files that they change, as they are then; StaleMutantError where one does not fit."""
    texts: dict[str, str] = {}
    for patch in patches:
        text = texts.get(patch.file) or (ROOT / patch.file).read_text(encoding="utf-8")
        texts[patch.file] = replaced_once(text, patch.old, patch.new, at=patch.file)
    return texts


def _ran_by(file: str) -> tuple[str, ...]:
    return next(images for source, images in SOURCES.items() if file.startswith(f"{source}/"))


def _build(base: str, name: str, texts: dict[str, str], folder: Path) -> None:
    shutil.rmtree(folder / "src", ignore_errors=True)
    inside = []
    for file, text in texts.items():
        inside.append(file.split("/src/", 1)[1])
        path = folder / "src" / inside[-1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    user = run(("docker", "image", "inspect", "--format", "{{.Config.User}}", base)).strip()
    text = DOCKERFILE.format(files=" ".join(inside), user=user)
    (folder / "Dockerfile").write_text(text, encoding="utf-8")
    words = ("docker", "build", "-q", "--build-arg", f"BASE={base}", "-t", name, str(folder))
    run(words, seconds=BUILD_S)
