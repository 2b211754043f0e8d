"""Nobody works for a session of Spark, or gives it objects to unpack, who has not its secret."""

import json
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bookie.repair.engine.driver_pod import JVM_FLAGS, DriverPod, spark_conf
from bookie.repair.spark.security import AUTHENTICATED, SECRET, with_secret
from bookie.repair.spark.session import EVERYWHERE

PROGRAM = Path(__file__).parents[3] / "support" / "foreign_executor.py"


def secret_of(arguments: str) -> str:
    words = shlex.split(arguments)
    assert (words[0], words[-1]) == ("--properties-file", "pyspark-shell")
    name, secret = Path(words[1]).read_text().split()
    assert name == SECRET
    return secret


def test_each_session_has_a_secret_of_its_own_in_a_file_of_this_user_alone(tmp_path: Path) -> None:
    folders = [tmp_path / "a b", tmp_path / "c"]
    for folder in folders:
        folder.mkdir()
    one, other = (secret_of(with_secret(folder)) for folder in folders)
    assert one != other and len(one) == 64
    assert stat.S_IMODE((folders[0] / "secret.conf").stat().st_mode) == 0o600


def test_a_file_that_is_there_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "secret.conf").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        with_secret(tmp_path)


def test_in_pods_spark_makes_the_secret_and_no_setting_tells_it() -> None:
    driver = DriverPod("10.0.0.1:443", "10.0.0.9", "demo", "data", "repair:1")
    conf = EVERYWHERE | AUTHENTICATED | spark_conf(driver, Path("t.yaml"))
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
    assert SECRET not in conf and SECRET not in JVM_FLAGS
    assert not [name for name in conf if name.startswith("spark.authenticate.secret")]


def test_a_session_shows_no_page() -> None:
    assert EVERYWHERE["spark.ui.enabled"] == "false"


@pytest.mark.process
def test_a5_a_driver_takes_no_executor_that_has_not_its_secret() -> None:
    command = [sys.executable, str(PROGRAM)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110)
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert seen == {"without": False, "wrong": False, "right": True, "on a command line": False}


@pytest.mark.process
def test_the_settings_are_those_of_a_running_session(spark: Any) -> None:
    conf = dict(spark.sparkContext.getConf().getAll())
    assert AUTHENTICATED.items() <= conf.items() and conf["spark.ui.enabled"] == "false"
