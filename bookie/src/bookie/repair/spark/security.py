"""Who may speak with a session of Spark, and what of it can be read: settings of every session.

Driver and executors know one secret, made for this session alone. Without it nobody registers as
an executor, fetches blocks or hands the driver objects to unpack. Their connections are encrypted,
and so is what a task spills to disk. In pods Spark makes the secret itself and gives it to its
executors by their environment; on this machine we make it (`with_secret`).
"""

import os
import secrets
import shlex
from pathlib import Path
from typing import Final

SECRET: Final = "spark.authenticate.secret"
SECRET_BYTES: Final = 32
SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
"""Variable in which pyspark takes what it adds to the command line of its JVM."""
AUTHENTICATED: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    # The default, CTR, hides what is said, but lets others change it.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    # Older peers might else choose DIGEST-MD5, without encryption; there are none.
    "spark.network.crypto.saslFallback": "false",
    "spark.network.sasl.serverAlwaysEncrypt": "true",
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
}


def with_secret(folder: Path) -> str:
    """Value of SUBMIT_ARGUMENTS for a JVM that knows a new secret.

    From a file that only this user may read: words of a command line are shown to everybody on the
    machine.
    """
    path = folder / "secret.conf"
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="ascii") as file:
        file.write(f"{SECRET} {secrets.token_hex(SECRET_BYTES)}\n")
    return f"--properties-file {shlex.quote(str(path))} pyspark-shell"
