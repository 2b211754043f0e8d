"""Which planted bugs a simulated cluster cannot meet, and why; the page on safety shows it."""

from typing import Final

from mutant import Mutant

SIMULATED: Final = "bookie/"
"""Where the code is that the simulation runs."""
PLANNER: Final = "the operator's planner: the simulation has bookies and their clients, no operator"
BEYOND: Final = {
    "a server of the metadata store is read that may lag": (
        "in our client of ZooKeeper, for which the simulation has a store of its own"
    ),
    "the writer takes any closed end for its own": (
        "its close waits until all is acknowledged, so that another end than its own cannot be met"
    ),
    "an unreadable marker is overruled by a readable one": (
        "markers of different modes meet only after a boot has marked durably what the older life "
        "may have lost"
    ),
    "repair has the last copy rejected": (
        "the copy does not verify, so nobody is given it with the bug or without; what is lost is "
        "evidence for a person"
    ),
    **dict.fromkeys(
        (
            "a lock is named by its machine alone",
            "locks that cannot be named prove it",
        ),
        "in the locks of real folders, which the simulation replaces",
    ),
    **dict.fromkeys(
        (
            "a bookie of a paused cluster collects",
            "an approval lets any collection go",
        ),
        "needs an operator's or a person's word, and the simulation has no operator",
    ),
    **dict.fromkeys(
        (
            "holders of last copies are cut off silently by whoever tells them",
            "a copy of a silent bookie counts as a known one",
            "a ledger that is written counts by its write quorum",
        ),
        "a figure that only the operator's planner acts on",
    ),
    **dict.fromkeys(
        (
            "a client that does not take its replies is never cut off",
            "a reply counts until it is read, not until it has left",
            "fences that could not be looked up are not bounded",
            "a fence of an id that nobody has leaves a record",
            "an add that is stored after its ledger's deletion leaves rows for ever",
        ),
        "costs memory or space; no promise about entries is broken",
    ),
    **dict.fromkeys(
        (
            "an index appends to a log that its disk may not have",
            "an index is folded from a log that its disk may not have",
        ),
        "below SQLite: a simulated database commits whole or not at all",
    ),
    "an OK without a reply counts as a fence": "the client's pool never hands one on",
    "a clean stop of any boot is proof": (
        "the marker of an older boot is of an older generation as well, and so asks a person first"
    ),
    "a newer epoch that somebody names is ignored": (
        "a second line: a later boot serves, and has its epoch named, when the lease of the former "
        "one is over by every clock that the promise allows"
    ),
    **dict.fromkeys(
        (
            "a client takes whatever greets it for the bookie meant",
            "nobody looks who answered a control plane call",
        ),
        "both ends ask the same question of the same words, and the bookie's end is asked first",
    ),
    "addresses are never forgotten": (
        "who is found at such an address is asked who it is, and sent away: it costs connections"
    ),
}
"""Name -> reason, of bugs in code that the simulation runs, or replaces."""


def why_beyond(mutant: Mutant) -> str:
    """Why no seed can find it; empty when a cluster can meet it."""
    if any(not patch.file.startswith(SIMULATED) for patch in mutant.patches):
        return PLANNER
    return BEYOND.get(mutant.name, "")
