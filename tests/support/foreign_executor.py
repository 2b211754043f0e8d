"""A program of its own: a Spark driver with one executor, and strangers that want to be another.

`python foreign_executor.py` prints as JSON which of them the driver took: one that speaks without
authentication, one with a wrong secret, and one that knows the driver's.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
from bookie.metadata.java import find_java
from bookie.repair.spark.master import MASTER_VARIABLE
from bookie.repair.spark.security import AUTHENTICATED, SECRET
from bookie.repair.spark.session import spark_session

BACKEND: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SECRET_VARIABLE: Final = "_SPARK_AUTH_SECRET"
"""By which Spark hands its secret to executors, on this machine as in pods."""
PATIENCE_S: Final = 40.0


def executors(spark: Any) -> int:
    """The driver itself is one of those that it lists."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def is_taken(spark: Any, settings: Mapping[str, str], secret: str) -> bool:
    """Whether the driver gives work to an executor that was started by hand."""
    had = executors(spark)
    jars = Path(pyspark.__file__).parent / "jars"
    context = spark.sparkContext
    driver = (
        f"spark://CoarseGrainedScheduler@127.0.0.1:{context.getConf().get('spark.driver.port')}"
    )
    command = [str(find_java()), "-Xmx512m", *(f"-D{k}={v}" for k, v in settings.items())]
    command += ["-cp", f"{jars}/*", BACKEND, "--driver-url", driver, "--executor-id", "99"]
    command += ["--hostname", "127.0.0.1", "--bind-address", "127.0.0.1", "--cores", "1"]
    command += ["--app-id", context.applicationId, "--resourceProfileId", "0"]
    environment = os.environ | ({SECRET_VARIABLE: secret} if secret else {})
    stranger = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE_S
        while executors(spark) == had and stranger.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        return executors(spark) > had
    finally:
        stranger.kill()
        stranger.wait(10)


def main() -> None:
    os.environ[MASTER_VARIABLE] = "local-cluster[1,1,512]"
    with spark_session() as spark:
        while not executors(spark):
            time.sleep(0.1)
        secret = spark.sparkContext.getConf().get(SECRET)
        assert secret is not None
        shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        seen = {
            "without": is_taken(spark, {}, ""),
            "wrong": is_taken(spark, AUTHENTICATED, "0" * 64),
            "right": is_taken(spark, AUTHENTICATED, secret),
            "on a command line": secret in shown.stdout,
        }
    print(json.dumps(seen))


if __name__ == "__main__":
    sys.exit(main())
