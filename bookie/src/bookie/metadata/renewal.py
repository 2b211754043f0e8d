"""`python -m bookie.metadata.renewal CREDENTIALS STORES PID`: a ZooKeeper's renewed certificates.

It looks at the folder of credentials every few seconds and writes what ZooKeeper reads again when
that changed; the server takes it for the next connection, without a restart. ZooKeeper itself
watches files but not links, by which Kubernetes renews a secret. It ends with the process PID.
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
"""How often it looks; a renewal is in use after it, at the latest."""
ENDED: Final = "Z"
"""How Linux calls a process that ended, and whose parent has not taken notice."""
LOOK_VARIABLE: Final = "BOOKIE_ZOOKEEPER_RENEWAL_S"


def start(credentials: Path, stores: Path, *, of: int) -> "subprocess.Popen[bytes]":
    """Begins one for the server with this process id."""
    words = [sys.executable, "-m", "bookie.metadata.renewal", str(credentials), str(stores)]
    return subprocess.Popen([*words, str(of)], stdin=subprocess.DEVNULL, start_new_session=True)


def renew(credentials: Path, stores: Path, pid: int, *, look_s: float = LOOK_S) -> None:
    """Until the process ends."""
    written, reported = None, ""
    while _is_alive(pid):
        seen = stamps(credentials)
        if seen != written:
            # Also the first time: they may have changed since the server was given its files.
            trouble = _written(credentials, stores)
            written = None if trouble else seen
            if trouble not in ("", reported):
                print(
                    f"warning: ZooKeeper goes on with the files it had: {trouble}", file=sys.stderr
                )
            reported = trouble
        time.sleep(look_s)


def _written(credentials: Path, stores: Path) -> str:
    """Why they could not be written, such as a full disk, which the next look tries again; empty:
    they were."""
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
        return True  # no Linux: a process that nobody waits for cannot be told from one that runs
    except OSError:
        return False
    # Its parent may wait for the end of our output before it takes notice of its end.
    return stat.rpartition(") ")[2][:1] != ENDED


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    source, target, server = sys.argv[1:]
    look_s = float(os.environ.get(LOOK_VARIABLE, LOOK_S))
    renew(Path(source), Path(target), int(server), look_s=look_s)
