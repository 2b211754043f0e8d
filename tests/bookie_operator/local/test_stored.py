"""What a directory stores of its cluster, where somebody or a disk has changed it."""

from pathlib import Path

import pytest
from bookie_operator.__main__ import main
from bookie_operator.local.down import down
from bookie_operator.platform.folders import LocalFolders, write_json
from click.testing import CliRunner


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    folders = LocalFolders(tmp_path)
    folders.make()
    write_json(folders.status_file, {"kind": "BookieCluster", "spec": {"replicas": "many"}})
    return folders


@pytest.mark.parametrize("command", ["status", "watch", "wait", "metadata", "env", "up"])
def test_a_status_that_is_none_is_named(folders: LocalFolders, command: str) -> None:
    told = CliRunner().invoke(main, ["local", command, "--dir", str(folders.root)])
    assert told.exit_code == 1 and "spec.replicas: found 'many'" in told.output
    assert str(folders.status_file) in told.output


@pytest.mark.parametrize("content", ['{"spec": []}', "{", "[]"])
def test_a_fleet_can_be_stopped_without_its_status(folders: LocalFolders, content: str) -> None:
    folders.status_file.write_text(content)
    said: list[str] = []
    assert down(folders, delete_volumes=True, report=said.append)
    assert "status.json" in said[0] and not folders.status_file.exists()
