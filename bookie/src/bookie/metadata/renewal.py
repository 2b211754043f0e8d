"""`python -m bookie.metadata.renewal CREDENTIALS STORES PID`: gives a ZooKeeper its renewed
certificates.

It checks the folder of credentials every few seconds, and when it has changed writes the files that
ZooKeeper reads; the server uses them for the next connection, without a restart. ZooKeeper itself
watches files but not links, by which Kubernetes renews a secret. The program ends when the process
PID does.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.metadata.java_stores import write_stores
from bookie.tls.files import stamps

LOOK_S: Final = 5.0
"""Seconds between two checks; renewed certificates are in use after this time at the latest."""
ENDED: Final = "Z"
"""Linux' state of a process that has ended and whose parent has not waited for it."""
LOOK_VARIABLE: Final = "BOOKIE_ZOOKEEPER_RENEWAL_S"


def start(credentials: Path, stores: Path, *, of: int) -> "subprocess.Popen[bytes]":
    """Start this program for the server with this process id."""
    words = [sys.executable, "-m", "bookie.metadata.renewal", str(credentials), str(stores)]
    return subprocess.Popen([*words, str(of)], stdin=subprocess.DEVNULL, start_new_session=True)


def renew(credentials: Path, stores: Path, pid: int, *, look_s: float = LOOK_S) -> None:
    """Check and renew until the process ends."""
    written, reported = None, ""
    while _is_alive(pid):
        seen = stamps(credentials)
        if seen != written:
            # Also in the first round: they may have changed since the server got its files.
            trouble = _written(credentials, stores)
            written = None if trouble else seen
            if trouble not in ("", reported):
                print(
                    f"warning: ZooKeeper goes on with the files it had: {trouble}", file=sys.stderr
                )
            reported = trouble
        time.sleep(look_s)


def _written(credentials: Path, stores: Path) -> str:
    """Write the files; returns why that failed, such as a full disk, or an empty text. The next
    check tries again.
    """
    try:
        write_stores(credentials, stores)
    except (SettingsError, OSError) as error:
        return str(error)
    return ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True  # not Linux: an ended process nobody waits for looks like a running one
    except OSError:
        return False
    # Its parent may read our output to the end before it waits for it.
    return stat.rpartition(") ")[2][:1] != ENDED


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    source, target, server = sys.argv[1:]
    look_s = float(os.environ.get(LOOK_VARIABLE, LOOK_S))
    renew(Path(source), Path(target), int(server), look_s=look_s)
