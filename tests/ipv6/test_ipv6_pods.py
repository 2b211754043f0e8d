"""Bookies, ZooKeeper, repairs and Spark where a pod's only address is one of IPv6."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ipv6 import POD, POD_IP, inside, obstacle

pytestmark = [pytest.mark.process, pytest.mark.timeout(170)]
STORY = Path(__file__).with_name("pod_story.py")
MASTER = "local-cluster[1,1,512]"
"""An executor is a process of its own, which has to find the driver by its address."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the story saw."""
    why = obstacle()
    if why is not None:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("pods")
    words = [sys.executable, str(STORY), str(folder), MASTER]
    environment = os.environ | {"POD_IP": POD_IP, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(inside(POD, words), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_stock_clients_find_a_bare_address_in_the_registration(seen: dict[str, Any]) -> None:
    assert seen["stock"] == [POD_IP, True]


def test_probes_reach_a_bookie_by_either_family(seen: dict[str, Any]) -> None:
    assert seen["ready"] == [200, 200]


def test_the_operator_hears_a_bookie_by_the_address_of_its_pod(seen: dict[str, Any]) -> None:
    assert seen["operator"] == "SERVING"


def test_the_flush_before_a_pods_end_reaches_its_own_bookie(seen: dict[str, Any]) -> None:
    assert seen["flush"] == 0


def test_a_repair_clears_the_limbo_of_a_killed_bookie(seen: dict[str, Any]) -> None:
    assert seen["limbo"] > 0 and (seen["repair"], seen["limbo_left"]) == (0, 0)


def test_spark_audits_with_an_executor_that_finds_the_driver(seen: dict[str, Any]) -> None:
    spark = seen["spark"]
    assert (spark["ok"], spark["exit"]) == (seen["written"], 0)
    assert spark["engine"].startswith("spark")
