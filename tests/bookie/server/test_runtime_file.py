"""The runtime file: whose it may be before this process has the lock of its folders."""

import json
import os
from pathlib import Path

import pytest
from bookie.server.runtime_file import PID_MAX, RuntimeFile

OWN, PARENT = os.getpid(), os.getppid()


@pytest.mark.parametrize(
    ("found", "is_left"),
    [
        (None, False),
        ("", False),
        ("[7]", False),
        ("{}", False),
        ('{"pid": "1"}', False),
        ('{"pid": 0}', False),
        (json.dumps({"pid": PID_MAX + 1}), False),
        (json.dumps({"pid": PID_MAX}), False),
        (json.dumps({"pid": OWN}), False),
        (json.dumps({"pid": PARENT}), True),
    ],
    ids=["absent", "empty", "list", "none", "text", "zero", "large", "gone", "own", "alive"],
)
def test_only_the_file_of_another_process_that_lives_is_left_alone(
    tmp_path: Path, found: str | None, is_left: bool
) -> None:
    """In a container each process has the id of the one before it."""
    path = tmp_path / "runtime.json"
    if found is not None:
        path.write_text(found)
    RuntimeFile(path, "bookie-0", 1000, {"run": 3182}).write_unless_taken()
    assert ("startedAtMs" not in json.loads(path.read_text())) is is_left
