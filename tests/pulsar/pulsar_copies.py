"""Who still knows of ledgers: asked of ZooKeeper and of every bookie by Apache's own client."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bookie.testing.apache import jvm
from pulsar_fleet import BOOKIES
from pulsar_tls import Secured

COPIES_WAIT_S: Final = 180.0
SMALL_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class CopiesError(Exception):
    """Not every bookie answered; the sentence says for how many ledgers."""


def copies(
    ledgers: Iterable[int], *, zookeeper: str, classpath: str, secured: Secured, folder: Path
) -> dict[int, tuple[bool, int]]:
    """Whether ZooKeeper knows it, and how many bookies hold entries of it. CopiesError unless
    every bookie answered of every ledger."""
    settings = folder / "client.properties"
    uri = f"zk+hierarchical://{zookeeper}/ledgers"
    every = {"metadataServiceUri": uri, **secured.client}
    settings.write_text("".join(f"{k}={v}\n" for k, v in every.items()), encoding="utf-8")
    words = [str(settings), *(str(ledger) for ledger in ledgers)]
    command = jvm(classpath, "Copies", words, folder=folder, flags=(*SMALL_JVM, *secured.flags))
    with (folder / "programs.log").open("ab") as log:
        done = subprocess.run(
            ["java", *command], stdout=subprocess.PIPE, stderr=log, timeout=COPIES_WAIT_S
        )
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    answered = [line for line in lines if len(line) == 4 and line[-1] == str(BOOKIES)]
    if done.returncode or len(answered) < len(words) - 1:
        raise CopiesError(
            f"{len(answered)} of {len(words) - 1} ledgers were answered for by all {BOOKIES} "
            f"bookies: {folder}/programs.log"
        )
    return {int(ledger): (state == "known", int(held)) for ledger, state, held, _ in answered}
