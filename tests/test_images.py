"""The Dockerfiles: one extra each, any base, no root. Building them needs a docker daemon."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMAGES = {
    "bookie/Dockerfile": "bookie",
    "operator/Dockerfile": "operator",
    "bookie/repair.Dockerfile": "bookie repair",
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def dockerfile(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def stages(path: str) -> dict[str, str]:
    """Each stage's text by its name, the last one as "final"."""
    parts = re.split(r"^FROM (\S+)(?: AS (\w+))?\n", dockerfile(path), flags=re.M)
    return {name or "final": body for name, body in zip(parts[2::3], parts[3::3], strict=True)}


@pytest.mark.parametrize("path", IMAGES)
def test_an_image_installs_its_own_parts_and_nothing_without_a_hash(path: str) -> None:
    own, tools = re.findall(r"requirements\.py ([a-z ]+)(?: \$\(.*\))? >", dockerfile(path))
    assert (own.strip(), tools) == (IMAGES[path], "build")
    assert set(IMAGES[path].split()) <= EXTRAS.keys()
    *locked, ours = installs(path)
    assert len(locked) == 2 and all("--require-hashes --no-deps" in line for line in locked)
    assert "--no-deps" in ours and "/dist/*.whl" in ours


def installs(path: str) -> list[str]:
    joined = dockerfile(path).replace("\\\n", "")
    return re.findall(r"pip [^&\n]*install [^&\n]*", joined.replace("uninstall", ""))


@pytest.mark.parametrize("extra", ["bookie", "operator"])
def test_spark_is_in_the_repair_image_alone(extra: str) -> None:
    assert not [line for line in EXTRAS[extra] if re.match(r"pyspark|bookie-operator", line)]


@pytest.mark.parametrize("path", IMAGES)
def test_an_image_is_built_on_any_base_and_runs_without_root(path: str) -> None:
    assert "ARG BASE=python:3.11-slim\nARG WHEELS=${BASE}\n" in dockerfile(path)
    bases = re.findall(r"^FROM (\S+)", dockerfile(path), flags=re.M)
    assert bases == ["${WHEELS}", "${WHEELS}", "deps", "${BASE}"]
    assert "USER ${UID}" in stages(path)["final"] and "ARG UID=10001" in stages(path)["final"]


@pytest.mark.parametrize("path", ["bookie/Dockerfile", "bookie/repair.Dockerfile"])
def test_who_runs_in_an_image_may_write_its_data(path: str) -> None:
    as_root, _user, _rest = stages(path)["final"].partition("USER ${UID}")
    assert "useradd --uid ${UID} --gid ${UID} " in as_root
    for made in (r"mkdir -p [^&]*/data\b", r"chown bookie:bookie [^&]*/data\b"):
        assert re.search(made, as_root)


@pytest.mark.parametrize("path", IMAGES)
def test_a_change_of_our_code_leaves_the_layers_of_dependencies_alone(path: str) -> None:
    parts = stages(path)
    assert "/src " not in parts["deps"] and "COPY bookie/src" in parts["app"]
    final = parts["final"]
    assert final.index("COPY --from=deps") < final.index("COPY --from=app")


@pytest.mark.parametrize("path", IMAGES)
def test_what_an_image_copies_reaches_the_docker_daemon(path: str) -> None:
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile(path), flags=re.M)
    assert {name for names in copied for name in names.split()} <= sent
    assert all((ROOT / name).exists() for name in sent)


@pytest.mark.parametrize("path", IMAGES)
def test_an_image_says_what_it_is_and_by_whose_leave(path: str) -> None:
    labels = dict(re.findall(r"org\.opencontainers\.image\.(\w+)=\"(.*)\"", stages(path)["final"]))
    assert set(labels) == {"title", "description", "licenses"}
    assert labels["title"] == f"bookie-operator/{IMAGES[path].split()[-1]}"


@pytest.mark.parametrize("path", IMAGES)
def test_an_image_is_trimmed_before_anything_of_ours_comes(path: str) -> None:
    final = stages(path)["final"]
    assert final.index("trim.sh") < final.index("COPY --from=deps")
    assert ("trim.sh bash" in final) is (path == "bookie/repair.Dockerfile")
