"""What a client may write into ZooKeeper and nobody believes: a counter of ledger ids beyond all
ids, and a ledger with an end that nobody ever wrote. Bookies have to boot beside both.
"""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

WAIT_S: Final = 60.0
COUNTER: Final = "/ledgers/idgen-long/HOB-9999999999"
LEDGER: Final = "/ledgers/00/0000/L0999"
METADATA: Final = """BookieMetadataFormatVersion\t2
quorumSize: 2 ensembleSize: 3 ackQuorumSize: 2 length: 5 lastEntryId: 1099511627776 state: CLOSED
segment {{ firstEntryId: 0 ensembleMember: "{0}" ensembleMember: "b" ensembleMember: "c" }}
digestType: CRC32C password: "" ctime: 1 cToken: 1
"""


def put(zk: Any, *, bookie: str) -> object:
    zk.create(COUNTER, b"", makepath=True)
    return zk.create(LEDGER, METADATA.format(bookie).encode())


def take_away(zk: Any) -> object:
    return [zk.delete(path) for path in (COUNTER, LEDGER)]


def serves_again(fleet: Path, bookie: str, kill: Callable[[], object]) -> bool:
    """Another process of this bookie, once it was killed, says that it is ready."""
    runtime = fleet / "bookies" / bookie / "runtime.json"
    former = json.loads(runtime.read_text(encoding="utf-8"))["pid"]
    kill()
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        try:
            now = json.loads(runtime.read_text(encoding="utf-8"))
            url = f"http://127.0.0.1:{now['ports']['http']}/readyz"
            with urllib.request.urlopen(url, timeout=WAIT_S):
                if now["pid"] != former:
                    return True
        except (OSError, ValueError):  # it is not there yet, or not ready
            pass
        time.sleep(0.2)
    return False
