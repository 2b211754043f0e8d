"""GitHub's workflows: well formed, with few rights, and with no work of their own."""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / ".github" / "workflows"
WORKFLOWS: Final = tuple(sorted(path.stem for path in FOLDER.iterdir()))
SETUP: Final = {"actions/checkout", "actions/setup-python", "actions/setup-java"}
"""What a job may use of others: it brings the tree and tools, and nothing that it runs is there."""
TARGETS: Final = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))


def workflow(name: str) -> dict[str, Any]:
    text = (FOLDER / f"{name}.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def commands(name: str) -> list[str]:
    """As a runner has them, with each row of a matrix in place of its name."""
    found = []
    for job in workflow(name)["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("command", [""])
        lines = [step["run"] for step in job["steps"] if "run" in step]
        found += [line.replace("${{ matrix.command }}", row) for line in lines for row in rows]
    return found


def test_there_are_workflows_for_tests_kind_nights_and_releases() -> None:
    assert WORKFLOWS == ("kind", "nightly", "release", "test")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_is_one_by_githubs_schema(name: str) -> None:
    pytest.importorskip("check_jsonschema")
    kept = files("check_jsonschema.builtin_schemas.vendor") / "github-workflows.json"
    schema = json.loads(kept.read_text(encoding="utf-8"))
    text = (FOLDER / f"{name}.yml").read_text(encoding="utf-8")
    read = {"on" if key is True else key: value for key, value in yaml.safe_load(text).items()}
    jsonschema.validate(read, schema)


def test_actionlint_has_nothing_to_say() -> None:
    if shutil.which("actionlint") is None:
        pytest.skip("actionlint is not on PATH")
    done = subprocess.run(["actionlint"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_sets_up_and_calls_the_makefile_and_nothing_else(name: str) -> None:
    used = [step["uses"].partition("@") for step in steps(name) if "uses" in step]
    assert {action for action, _at, _version in used} <= SETUP
    assert all(re.fullmatch(r"v\d+(\.\d+)*|[0-9a-f]{40}", version) for *_rest, version in used)
    for command in commands(name):
        program, *words = re.sub(r"\$\{\{.*?\}\}", "7", command).split()
        targets = {word for word in words if "=" not in word}
        assert command == ".ci/run" or (program == "make" and targets <= TARGETS), command


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_the_tree_and_only_a_release_may_write(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    more = [job["permissions"] for job in workflow(name)["jobs"].values() if "permissions" in job]
    assert more == ([{"contents": "write"}] if name == "release" else [])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_job_has_an_end(name: str) -> None:
    jobs = workflow(name)["jobs"].values()
    assert all(0 < int(job["timeout-minutes"]) <= 300 for job in jobs)


def test_no_workflow_puts_what_strangers_name_into_a_shell() -> None:
    text = "".join((FOLDER / f"{name}.yml").read_text(encoding="utf-8") for name in WORKFLOWS)
    in_shells = [line for line in text.splitlines() if "run:" in line]
    assert [line for line in in_shells if "github." in line and "run_number" not in line] == []
    assert "pull_request_target" not in text
