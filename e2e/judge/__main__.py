"""`make judge`: builds the judge into build/judge and runs the unit tests of its pure parts.

Exit codes: 0 passed, or SKIPPED where Maven or a JDK is missing and nobody said --require; else 1.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bookie.testing.apache import ApacheError, NoToolsError
from judge_java import FOLDER, build, unit_tests


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e/judge", description=__doc__)
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    options = parser.parse_args()
    try:
        classpath = build().classpath()
    except NoToolsError as error:
        print(f"SKIPPED: judge: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"judge: {error}")
        return 1
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        code = unit_tests(classpath, Path(folder))
    print(f"judge: built in {FOLDER}")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
