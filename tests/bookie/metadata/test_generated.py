"""Committed protobuf code is what its .proto says."""

import subprocess
import sys
from pathlib import Path

import pytest

import bookie

SOURCES = Path(bookie.__file__).parent.parent
GENERATED = [
    "bookie/metadata/bookkeeper",
    "bookie/wire/admin/bookie_admin",
    "bookie/wire/stock/bookkeeper_protocol",
]


def descriptor(generated: Path) -> str:
    """The line that holds the messages; the rest names the compiler's version."""
    lines = generated.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("DESCRIPTOR = "))


@pytest.mark.parametrize("name", GENERATED)
def test_generated_code_is_fresh(name: str, tmp_path: Path) -> None:
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(SOURCES)]
    subprocess.run([*protoc, f"--python_out={tmp_path}", f"{name}.proto"], check=True)
    made, committed = (folder / f"{name}_pb2.py" for folder in (tmp_path, SOURCES))
    assert descriptor(committed) == descriptor(made)
