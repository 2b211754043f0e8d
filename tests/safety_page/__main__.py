"""`make safety-page`: puts the figures of docs/proof into docs/safety.md.

With --check (`make lint`): 1 when a figure does not say what core it is of, or is older than the
core by more than one release; figures of an earlier core within that are told, no more.
"""

import sys

from bookie.testing.figures import core_digest, release
from safety_figures import (
    CHANGELOG,
    PAGE,
    PROOF,
    of_earlier_core,
    read_figures,
    releases_of,
    rendered,
    too_old,
)


def main(arguments: list[str]) -> int:
    found = read_figures(PROOF)
    wrong = too_old(found, releases_of(CHANGELOG.read_text(encoding="utf-8"), release()))
    for line in wrong:
        print(line, file=sys.stderr)
    core = core_digest()
    if earlier := of_earlier_core(found, core):
        print(f"of an earlier core than {core}: {', '.join(earlier)}")
    if "--check" not in arguments:
        page = rendered(PAGE.read_text(encoding="utf-8"), found, core=core)
        PAGE.write_text(page, encoding="utf-8")
        print(f"{PAGE.name}: figures of {', '.join(found)}")
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
