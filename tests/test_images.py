"""The Dockerfiles: one extra each, any base, no root. Building them needs a docker daemon."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMAGES = ("bookie", "operator")


def dockerfile(image: str) -> str:
    return (ROOT / image / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_installs_its_own_extra(image: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.findall(r"'\.\[(.*)\]'", dockerfile(image)) == [image]
    assert image in extras["optional-dependencies"]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_built_on_any_base_and_runs_without_root(image: str) -> None:
    text = dockerfile(image)
    assert "ARG BASE=python:3.11-slim\n" in text
    assert set(re.findall(r"^FROM (\S+)", text, flags=re.M)) == {"${BASE}"}
    final = text.rpartition("FROM ")[2]
    assert "USER ${UID}" in final and "ARG UID=10001" in final


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_copies_reaches_the_docker_daemon(image: str) -> None:
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile(image), flags=re.M)
    assert {name.rstrip("*") for names in copied for name in names.split()} <= sent
    assert all((ROOT / name).exists() for name in sent - {"wheels"})
