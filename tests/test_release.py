"""What a release is made of: one version in every file, notes from the change log, charts."""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from argparse import ArgumentTypeError
from collections import Counter
from pathlib import Path
from typing import Any, Final

import artifacthub
import packed_charts
import pytest
import release
import release_notes
import release_version
import releases
import yaml

ROOT: Final = Path(__file__).parents[1]
VERSION: Final = release_version.version()
CHANGES: Final = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
DIGEST: Final = f"sha256:{'a' * 64}"
LOG: Final = """\
# Changelog

## Unreleased

### Added
- **Bookie**: new.

## 0.1.0 - 2026-11-30

### Fixed
- **Client**: old.
"""
HISTORY: Final = ("CHANGELOG.md", "SECURITY.md", "docs/decisions/", "docs/proof/", "docs/safety.md")
"""What was so at a version: it stays as it is."""
OTHERS: Final = ("constraints.txt", "e2e/", "tests/")
"""Versions of others, and samples of ours that no release changes."""
EXAMPLES: Final = ("CONTRIBUTING.md", "Makefile", "docs/gitops.md", "supply/")
"""Which show how a command is given."""


# The version


def test_every_place_has_the_version_of_the_tree() -> None:
    found = list(release_version.found())
    assert {name for name, _version in found} == set(release_version.PLACES)
    assert release.out_of_step(VERSION, found) == []


def test_no_other_file_names_the_version() -> None:
    pattern = rf"(^|[^0-9.]){re.escape(VERSION)}($|[^0-9.]|\.[^0-9]|\.$)"
    command = ["git", "grep", "-lIE", pattern]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no repository of git around the tree")
    known = (*release_version.GENERATED, *HISTORY, *OTHERS, *EXAMPLES, *release_version.PLACES)
    assert [name for name in done.stdout.splitlines() if not name.startswith(known)] == []


@pytest.mark.parametrize("name", release_version.PLACES)
def test_another_version_is_written_wherever_a_place_has_one(name: str) -> None:
    before = (ROOT / name).read_text(encoding="utf-8")
    pattern = release_version.PLACES[name]
    after = release_version.written(before, pattern, "7.8.9")
    count = len(re.findall(pattern, before, re.MULTILINE))
    assert count > 0 and after.count("7.8.9") == count
    assert not re.search(rf"(?<![\d.]){re.escape(VERSION)}(?!\d)", after), "one is left"
    assert release_version.written(after, pattern, VERSION) == before


def test_who_asks_for_another_version_hears_which_files_have_none_of_it() -> None:
    [said] = release.out_of_step("0.2.0", [("docs/a.md", "0.1.0"), ("a", "0.2.0")])
    assert "docs/a.md has 0.1.0: run make version VERSION=0.2.0" in said


# The releases before


def numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_newest_release_is_that_of_the_change_log_and_the_tree_is_on_its_way_from_it() -> None:
    dated = [name for name, date in release_notes.dates(CHANGES).items() if date]
    assert [name for name in dated if name != VERSION][::-1] == list(releases.releases())
    assert numbers(releases.newest()) < numbers(VERSION)


@pytest.fixture(params=releases.releases())
def before(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A release, and its sources."""
    try:
        return request.param, releases.source(request.param)
    except releases.NoHistoryError as error:
        pytest.skip(str(error))


def test_the_commit_of_a_release_names_its_version(before: tuple[str, Path]) -> None:
    version, source = before
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    log = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["version"] == version and release_notes.dates(log)[version]


def test_programs_of_a_release_are_those_of_its_commit(before: tuple[str, Path]) -> None:
    program = releases.python(before[0]).with_name("bookie-operator")
    done = subprocess.run(
        [str(program), "--version"], env=releases.environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[-1] == before[0]


def test_a_clone_without_the_commit_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "releases", lambda: {"0.0.1": "a" * 40})
    with pytest.raises(releases.NoHistoryError, match="git fetch --unshallow"):
        releases.source("0.0.1")


def test_a_release_is_recorded_once_and_by_its_whole_commit() -> None:
    record = releases.RECORD.read_text(encoding="utf-8")
    after = tomllib.loads(releases.added(record, "7.8.9", "a" * 40))
    assert list(after.items()) == [*releases.releases().items(), ("7.8.9", "a" * 40)]
    for version, revision in ((releases.newest(), "a" * 40), ("7.8.9", "abc1234")):
        with pytest.raises(ValueError, match=rf"{version}.*expected"):
            releases.added(record, version, revision)


# What a release needs


def lacking(digest: str = DIGEST, source: str = "https://x/y", changes: str = "") -> list[str]:
    return release.obstacles(digest, source, "0.1.0", log=LOG, changes=changes)


def test_a_release_needs_the_digest_of_its_base_and_a_tree_as_committed() -> None:
    assert lacking() == []
    assert "BASE_DIGEST is ''" in lacking("")[0] and lacking("python:3.11-slim")
    assert lacking(source="") and lacking(changes=" M a\n")


def test_a_release_needs_a_section_of_the_change_log_with_its_date() -> None:
    for log in (LOG.replace(" - 2026-11-30", ""), LOG.replace("0.1.0", "0.0.9")):
        [said] = release.obstacles(DIGEST, "https://x/y", "0.1.0", log=log, changes="")
        assert "no section `## 0.1.0 - DATE`" in said


def test_a_trial_tells_what_lacks_and_another_version_ends_it() -> None:
    def trial(version: str) -> "subprocess.CompletedProcess[str]":
        words = ["--version", version, "--digest=", "--source=", "--dry"]
        command = [sys.executable, str(ROOT / "supply" / "release.py"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert trial("9.9.9").returncode == 1
    done = trial(VERSION)
    assert done.returncode == 0 and "would be refused: BASE_DIGEST is ''" in done.stderr


# Its notes


def test_the_notes_of_a_release_are_its_section() -> None:
    assert release_notes.notes(LOG, "0.1.0") == "### Fixed\n- **Client**: old."
    assert release_notes.notes(LOG, "0.2.0") == "### Added\n- **Bookie**: new."


def test_what_was_unreleased_gets_a_version_and_a_date_once() -> None:
    after = release_notes.released(LOG, "0.2.0", "2026-12-24")
    assert list(release_notes.sections(after)) == ["Unreleased", "0.2.0", "0.1.0"]
    assert release_notes.sections(after)["Unreleased"] == ""
    assert release_notes.dates(after)["0.2.0"] == "2026-12-24"
    assert release_notes.released(after, "0.2.0", "2027-01-01") == after


@pytest.mark.parametrize("heading", ["## soon", "## [0.2.0] - 2026-12-24", "## 0.1.0 - 2026-1-1"])
def test_a_heading_of_another_shape_is_refused(heading: str) -> None:
    with pytest.raises(ValueError, match=r"headings of CHANGELOG\.md"):
        release_notes.sections(f"{LOG}\n{heading}\n")


# The charts


def values_by_digest(chart: str) -> str:
    text = (ROOT / "charts" / chart / "values.yaml").read_text(encoding="utf-8")
    digests = dict.fromkeys(packed_charts.IMAGES, DIGEST)
    after = packed_charts.by_digest(text, digests)
    assert packed_charts.by_digest(after, digests) == after
    return after


@pytest.mark.parametrize("word", ["operator", f"operater={DIGEST}", "bookie=sha256:abc"])
def test_a_digest_that_no_chart_could_use_is_refused(word: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"found '{word}', expected IMAGE=sha256: and 64"):
        packed_charts.digest_of(word)


def test_images_go_into_the_charts_by_digest() -> None:
    operator = yaml.safe_load(values_by_digest("bookie-operator"))
    assert operator["image"]["digest"] == DIGEST
    cluster = yaml.safe_load(values_by_digest("bookie-cluster"))
    assert cluster["image"] == f"bookie-operator/bookie:{VERSION}@{DIGEST}"
    assert cluster["repair"]["image"] == f"bookie-operator/repair:{VERSION}@{DIGEST}"


NOTES: Final = """\
### Added
- **Bookie**: nothing of charts.
- **Charts**: `image.digest` wins over
  [the tag](docs/kubernetes.md).

### Security
- **Charts**: fewer rights.
"""


def shown(chart: str, digests: dict[str, str], source: str = "") -> dict[str, Any]:
    path = ROOT / "charts" / chart / "Chart.yaml"
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    return artifacthub.annotated(tree, NOTES, digests, source)


def annotation(found: dict[str, Any], name: str) -> Any:
    return yaml.safe_load(found["annotations"][f"artifacthub.io/{name}"])


def test_artifact_hub_shows_what_changed_of_the_charts() -> None:
    changes = annotation(shown("bookie-cluster", {}), "changes")
    assert changes == [
        {"kind": "added", "description": "image.digest wins over the tag."},
        {"kind": "security", "description": "fewer rights."},
    ]
    assert all(one["kind"] in artifacthub.KINDS for one in changes)


def test_artifact_hub_shows_the_images_as_the_values_name_them() -> None:
    found = shown("bookie-cluster", {"bookie": DIGEST})
    assert annotation(found, "images") == [
        {"name": "bookie", "image": f"bookie-operator/bookie:{VERSION}@{DIGEST}"},
        {"name": "repair", "image": f"bookie-operator/repair:{VERSION}"},
    ]
    assert annotation(found, "license") == "Apache-2.0"


def test_artifact_hub_gets_no_link_where_no_repository_is_known() -> None:
    found = shown("bookie-operator", {})
    assert "icon" not in found and "artifacthub.io/links" not in found["annotations"]
    assert annotation(found, "operator") is True


def test_links_and_icon_lead_to_files_of_that_release() -> None:
    found = shown("bookie-operator", {}, "https://x/y")
    urls = [link["url"] for link in annotation(found, "links")] + [found["icon"]]
    for url in urls:
        assert (ROOT / url.partition(f"/v{VERSION}/")[2]).is_file()


def test_a_chart_is_packed_into_the_same_bytes_each_time(tmp_path: Path) -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not on PATH")
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        found = packed_charts.packed(ROOT / "charts" / "bookie-operator", folder).read_bytes()
        made.append(packed_charts.same_each_time(found, 1_764_249_600))
    assert made[0] == made[1]
    with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
        names = Counter(member.name for member in archive.getmembers())
    assert names["bookie-operator/Chart.yaml"] == 1 and max(names.values()) == 1
