"""`make test-ipv6`: tests with real processes, on a machine that has no address but ::1.

The local fleet with its operator, both of our wires, ZooKeeper, and Apache's own client where Maven
and a JDK are. Spark is not among them: PySpark talks to its own JVM over 127.0.0.1, which every pod
has (`test_ipv6_pods` has it in a pod's place). Exit code 0, also where no such machine can be made.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from bookie.testing.apache import ApacheError, Build, NoToolsError
from ipv6 import ONLY_LOOPBACK, inside, obstacle

ROOT: Final = Path(__file__).parents[2]
JAVA: Final = ROOT / "tests" / "java"
SUITES: Final = (
    "tests/bookie/metadata",
    "tests/bookie/client/test_pool.py",
    "tests/bookie/server/test_process.py",
    "tests/bookie/server/test_stock.py",
    "tests/bookie/server/test_stock_reads.py",
    "tests/bookie_operator/local/test_real_fleet.py",
)


def apaches_client_can_be_had() -> bool:
    """Built out here: Maven needs a network."""
    sources = tuple(sorted((JAVA / "src" / "test" / "java").rglob("*.java")))
    try:
        Build(JAVA / "pom.xml", sources, ROOT / "build" / "test-java").classpath()
    except (NoToolsError, ApacheError) as error:
        print(f"SKIPPED: Apache's client on ::1: {error}")
        return False
    return True


def main() -> int:
    if (why := obstacle()) is not None:
        print(f"SKIPPED: test-ipv6: {why}")
        return 0
    commands = [[sys.executable, "-m", "pytest", "-q", *SUITES]]
    if apaches_client_can_be_had():
        commands.append([sys.executable, "tests/java", *sys.argv[1:]])
    codes = [
        subprocess.run(inside(ONLY_LOOPBACK, command), cwd=ROOT, check=False).returncode
        for command in commands
    ]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
