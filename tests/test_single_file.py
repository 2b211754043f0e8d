"""`kubectl-bookie` as one file, and the manifest by which krew installs it."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from importlib.metadata import distribution, packages_distributions
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import krew
import pytest
import single_file
import yaml
from archives import archive_of
from kubectl_lab import FakeLab
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
SHA: Final = "a" * 64
LOCKED: Final = {
    canonicalize_name(name) for name in re.findall(r"^(\S+?)==", single_file.locked(), re.MULTILINE)
}
PYTHON: Final = Path(sys.base_prefix) / "bin" / "python3"
"""The Python that this environment was made of: it has none of our packages."""


# What is in it


def test_the_plugin_imports_what_is_locked_for_it_and_nothing_else() -> None:
    command = "import sys, bookie_operator.kubectl.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", command], check=True, capture_output=True, text=True
    )
    makers = packages_distributions()
    imported = {name.split(".")[0] for name in done.stdout.split()}
    found = {canonicalize_name(d) for m in imported for d in makers.get(m, ()) if m[0] != "_"}
    assert "pydantic-core" in found and found - LOCKED - {"bookie-operator"} == set()


def test_every_package_of_it_has_hashes_for_each_platform() -> None:
    assert len(re.findall(r"^\S+==", single_file.locked(), re.MULTILINE)) == len(LOCKED)
    [core] = re.findall(r"^pydantic-core==.*(?:\n    --hash=.*)+", single_file.locked(), re.M)
    assert core.count("--hash") > len(single_file.PLATFORMS) * len(single_file.PYTHONS)


# The file, of the packages that are installed here


def put_installed(folder: Path) -> None:
    """What an index would give, without one: the packages of this environment, and this tree's."""
    for name in LOCKED:
        for file in distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), folder / file)
    shutil.copytree(ROOT / "bookie/src/bookie", folder / "bookie")
    shutil.copytree(ROOT / "operator/src/bookie_operator", folder / "bookie_operator")
    metadata = folder / "bookie_operator-7.8.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: bookie-operator\nVersion: 7.8.9\n")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("shiv")
    folder = tmp_path_factory.mktemp("file")
    put_installed(folder / "packages")
    single_file.pack(folder / "packages", folder / single_file.NAME)
    return folder / single_file.NAME


def run(program: Path, *words: str, **env: str) -> str:
    """By that bare Python, with a home of its own."""
    settings = {"PATH": os.defpath, "SHIV_ROOT": str(program.parent / "shiv")} | env
    command = [str(PYTHON), "-s", str(program), *words]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
def test_the_one_file_runs_without_any_package_installed(program: Path, tmp_path: Path) -> None:
    assert run(program, "--version") == "kubectl bookie, version 7.8.9\n"
    lab = FakeLab(tmp_path)
    lab.put_cluster("healthy")
    assert "BookieCluster" in run(program, "status", **lab.env)


def test_a_python_that_it_cannot_use_is_told_which_it_needs(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(program) as archive:
        preamble = archive.extract("site-packages/bin/preamble.py", tmp_path)
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"python3 is 3\.10, expected 3\.11, .*: put one first on"):
        runpy.run_path(preamble)


def test_the_file_is_the_same_bytes_each_time(program: Path) -> None:
    again = program.with_name("again")
    single_file.pack(program.parent / "packages", again)
    assert again.read_bytes() == program.read_bytes()


def test_an_archive_has_the_program_and_is_the_same_bytes_each_time() -> None:
    files = {"kubectl-bookie": (b"#!", 0o755), "LICENSE": (b"words", 0o644)}
    made = archive_of(files, 1_764_249_600)
    assert archive_of(dict(reversed(files.items())), 1_764_249_600) == made
    with tarfile.open(fileobj=BytesIO(made)) as archive:
        assert {m.name: m.mode for m in archive} == {"kubectl-bookie": 0o755, "LICENSE": 0o644}


# krew's manifest, by the rules of its own validation: internal/index/validation of kubernetes-sigs


def faults(name: str, found: dict[str, Any]) -> list[str]:
    """What krew would refuse it for."""
    spec = found["spec"]
    wrong = {
        "apiVersion": found["apiVersion"] != "krew.googlecontainertools.github.com/v1alpha2",
        "kind": found["kind"] != "Plugin",
        "name": not re.fullmatch(r"[\w-]+", name) or found["metadata"]["name"] != name,
        "shortDescription": not spec["shortDescription"] or "\n" in spec["shortDescription"],
        "version": not re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"]),
        "platforms": not spec["platforms"],
    }
    of_platforms = [fault for one in spec["platforms"] for fault in platform_faults(one)]
    return [field for field, is_wrong in wrong.items() if is_wrong] + of_platforms


def platform_faults(one: dict[str, Any]) -> list[str]:
    labels = one["selector"].get("matchLabels", {})
    files = one.get("files", [{"from": "*", "to": "."}])
    wrong = {
        "uri": not one["uri"].startswith("https://"),
        "sha256": not re.fullmatch(r"[a-f0-9]{64}", one["sha256"]),
        "bin": not one["bin"],
        "files": not files or not all(file["from"] and file["to"] for file in files),
        "selector": not labels or not labels.keys() <= {"os", "arch"},
    }
    return [field for field, is_wrong in wrong.items() if is_wrong]


def manifest() -> dict[str, Any]:
    made = krew.manifest("0.2.0", "https://x/y", dict.fromkeys(single_file.PLATFORMS, SHA))
    read: dict[str, Any] = yaml.safe_load(yaml.safe_dump(made))
    return read


def test_krew_takes_the_manifest() -> None:
    assert faults("bookie", manifest()) == []


def test_each_platform_is_selected_once_and_has_its_own_archive() -> None:
    platforms = manifest()["spec"]["platforms"]
    selected = ["{os}-{arch}".format(**one["selector"]["matchLabels"]) for one in platforms]
    assert selected == list(single_file.PLATFORMS)
    assert all(name in one["uri"] for name, one in zip(selected, platforms, strict=True))


@pytest.mark.parametrize(
    ("field", "value"), [("uri", "http://x"), ("sha256", "A" * 64), ("bin", ""), ("files", [])]
)
def test_what_krew_would_refuse_is_seen(field: str, value: Any) -> None:
    made = manifest()
    made["spec"]["platforms"][0][field] = value
    assert faults("bookie", made) == [field]


def test_krew_itself_installs_the_plugin(program: Path, tmp_path: Path) -> None:
    if shutil.which("krew") is None:
        pytest.skip("krew is not on PATH")
    files = {single_file.NAME: (program.read_bytes(), 0o755), "LICENSE": (b"words", 0o644)}
    archive, made = tmp_path / "kubectl-bookie.tar.gz", tmp_path / "bookie.yaml"
    archive.write_bytes(archive_of(files, 0))
    sums = dict.fromkeys(single_file.PLATFORMS, sha256(archive.read_bytes()).hexdigest())
    made.write_text(yaml.safe_dump(krew.manifest("7.8.9", "https://x/y", sums)), encoding="utf-8")
    command = ["krew", "install", f"--manifest={made}", f"--archive={archive}"]
    subprocess.run(command, env=os.environ | {"KREW_ROOT": str(tmp_path / "krew")}, check=True)
    installed = tmp_path / "krew" / "bin" / single_file.NAME
    assert run(installed.resolve(), "--version") == "kubectl bookie, version 7.8.9\n"


def test_the_sums_are_those_of_the_archives_that_lie_there(tmp_path: Path) -> None:
    (tmp_path / "kubectl-bookie-linux-amd64.tar.gz").write_bytes(b"")
    (tmp_path / "kubectl-bookie-other.tar.gz").write_bytes(b"")
    assert krew.sums_of(tmp_path) == {
        "linux-amd64": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    }
