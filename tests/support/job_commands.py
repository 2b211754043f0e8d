"""A job's command as a process of its own, as a person or a pod runs it: exit code and result."""

import asyncio
import json
import subprocess
import sys
from typing import Any, Final

import pytest

JOB_WAIT_S: Final = 240.0
"""Bounds a job that hangs, and nothing else. With two cores Spark alone begins in 13 s, and in
three times as long beside bookies and their writer."""
beside_a_job = pytest.mark.timeout(JOB_WAIT_S + 60)
"""The limit of a test that waits for such a job."""


async def run_job(*words: str) -> tuple[int, dict[str, Any]]:
    """The command's exit code and result object, while this loop goes on."""
    command = [sys.executable, "-m", "bookie", *words, "--output", "json"]
    ended = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=JOB_WAIT_S, check=False
    )
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)
