"""`make snapshot VERSION=0.2.0`: records the formats of this tree as those of a release.

README.md beside this says when.
"""

import argparse

from result_formats import documents_of_jobs
from snapshot import folder_of, record
from todays_formats import todays


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests/versions", description=__doc__)
    parser.add_argument("version", help="of the release, such as 0.2.0")
    version = parser.parse_args().version
    record(version, todays(), documents_of_jobs())
    print(f"recorded in {folder_of(version)}")


if __name__ == "__main__":
    main()
