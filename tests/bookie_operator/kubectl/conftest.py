"""The lab of the plugin's tests, its kubectl on PATH."""

from pathlib import Path

import pytest
from kubectl_lab import FakeLab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    made = FakeLab(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made
