"""Words of a parameter are the name of a file here: without spaces and signs that shells read."""

import re

import pytest


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    return re.sub(r"[^\w.-]+", "_", val).strip("_") if isinstance(val, str) else None
