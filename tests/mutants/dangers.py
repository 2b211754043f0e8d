"""What must be among the planted bugs: the words that a mutant's `stands_for` may use.

First the rules that the model loses, then what each scenario of docs/protocol-rules.md catches,
both from the study that this project rests on; then the list of issue 5, and what the
outside review of issue 17 found, by its numbers.
"""

from typing import Final

MODEL_ROWS: Final = (
    "recovery reads do not fence",
    "fence non-closed only",
    "fence not durable",
    "no boot fence",
    "no limbo",
    "limbo cleared at boot",
    "limbo cleared at IN_RECOVERY",
    "pre-boot not awaited",
    "UNKNOWN counted as negative",
    "one NSE is enough",
    "no write-back",
    "LAC advances in recovery adds",
    "closed ledger re-opened",
    "AQ positives required",
    "fence threshold 1",
)

SCENARIOS: Final = (
    "S1 fence in memory only",
    "S1 no boot fence",
    "S2 no limbo",
    "S2 UNKNOWN as negative",
    "S2 early decision",
    "S3 false NSE",
    "S4 reads without fence",
    "S5 LAC default as start",
    "S6 count QC over the ensemble",
    "S7 majority of negatives",
    "S8 deciding before all are in",
    "S9 EIO mapped to NSE",
    "S10 digest unchecked",
    "S10 corruption copied",
    "S11 close without state check",
    "S11 reader ignores the end",
    "S12 LAC advanced in recovery adds",
    "S13 ensemble committed during recovery",
    "S14 continuing past a hole",
    "S14 closing before write-backs",
    "S15 writer closes from its own view",
    "S16 wrong conflict handling",
    "S17 local-only ensembles",
    "S18 acks of replaced members",
    "S19 stepwise un-ack",
    "S20 early callbacks",
    "S21 retry CAS blindly",
    "S22 ABA on index",
    "S23 fenced treated as failure",
    "S24 non-closed only rule",
    "S25 pre-boot not awaited",
    "S26 marker cleared early",
    "S27 unsynced marker",
    "S28 unconditional clear",
    "S29 deciding by current config",
    "S30 clear on attempt",
    "S31 flag cleared before sync",
    "S32 AQ-positive rule",
    "S33 silent close",
    "S33 hot loop",
    "S33 no way out",
    "S34 loss not classified",
    "S35 NSE shown as end of ledger",
    "S36 re-opened closed ledger",
    "S37 one-time metadata cache",
    "S38 stale listing",
    "S39 per-directory cookie ignored",
    "S40 fence lost with the ledger",
    "S41 counting answers, not bookies",
    "S42 limbo leaks as negative",
    "S43 answer attributed to the wrong entry",
    "S44 early fence reply",
    "S45 chaining without CAS",
    "S45 closing only the last one",
    "S46 boot fencing driven by membership",
)

ISSUE: Final = (
    "unsynced marker",
    "marker cleared after failed flush",
    "limbo cleared before copies are synced",
    "fence answered before durable",
    "ack of a replaced member",
    "fence only open ledgers",
    "NSE from an I/O error",
    "wrong write set for a striped ledger",
    "availability off by one at run borders",
    "cookie stamped before the fence",
    "repair that trusts a Job's exit code",
    "planner exceeds the loss budget",
    "wrong victim order",
)

KIND_REVIEW: Final = (
    "D1 findings that nobody repairs",
    "D2 verified by an audit from before",
)
"""Of the review on a real cluster, by its defects."""

REVIEW: Final = (
    "A1 another cluster's bookie answers",
    "A1 the address of a bookie that has gone",
    "A2 an older process answers",
    "A2 two processes of one bookie",
    "A3 listed ledger deleted",
    "A3 missing ledger ends the log",
    "A4 an older copy of the same boot",
    "A4 absence taken for a clean stop",
    "A5 premature collection",
    "A5 a rolled back store is acted on",
    "A5 a rolled back store is not noticed",
    "A8 its own late write refuses a boot",
    "A9 fences of nobody's ledgers",
    "B6 late roll forgotten",
    "A7 unreadable passes for absent",
    "A9 unbounded replies",
    "A10 a claimed loss makes a denial",
    "B2 no reply counts as fenced",
    "B3 one wrong key blocks a recovery",
    "B4 commits behind a hole",
    "B5 rows under a tombstone",
)
"""Of the review of issue 17, by its items."""

CLASSES: Final = (
    "a rule of single adds is not that of blocks",
    "a rule of passed-on frames is not that of made ones",
    "rejected copies beside row splits and compaction",
    "a compaction beside a crash",
    "collection beside a store that lies",
    "a source that stands still",
    "a reader forgets what was acknowledged",
    "a request is answered never or twice",
    "maintenance beside a full disk",
    "a hindrance that has passed still counts",
    "what has failed is done all the same",
    "what nobody has seen counts",
)
"""Of issue 22, item 2: classes of what outside reviews planted, or found, and no test noticed."""

NOTES: Final = (
    "note too late",
    "no note for write-backs",
    "note lost with the journal",
    "note lost with the index",
    "note goes without its permit",
    "note goes while entries are in memory",
    "notes of other disks",
    "notes of a version that kept none",
    "earlier marks beside notes",
    "notes beside commits in between",
    "notes of an interrupted fix",
)
"""The ways in which a note may lie (docs/decisions/2026-11-27-dirty-notes.md)."""

WRITERS: Final = (
    "limbo goes while the bookie is named",
    "limbo goes without earlier fragments",
    "limbo that nothing ends",
    "a writer that could go on is cut off",
    "more copied than was forgotten",
    "a loss that is none",
)
"""Where a ledger outlives a crash (docs/decisions/2026-11-28-writers-live-on.md)."""

DANGERS: Final = frozenset(
    (*MODEL_ROWS, *SCENARIOS, *ISSUE, *KIND_REVIEW, *REVIEW, *CLASSES, *NOTES, *WRITERS)
)
