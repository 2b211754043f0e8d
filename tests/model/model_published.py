"""The published counterexamples, step by step, as paths of the model.

BP-46 ("Running without the journal") tells two scenarios; here each of its steps is the model's
moves that make it up. C1 is the writer W, C2 the recoverer R, B1..B3 are B0..B2, E1 is e0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from model_ledger import LedgerModel
from model_state import State
from model_story import Move, follow


@dataclass(frozen=True, slots=True)
class Stage:
    """One step as published, and the moves it is made of."""

    text: str
    moves: tuple[Move, ...]


def _each(verb: str, *positions: int, entry: int = -1) -> tuple[Move, ...]:
    return tuple((verb, at, entry) for at in positions)


SCENARIO_1 = (
    Stage(
        "C1 writes entry E1 to L1. The write hits all three bookies.",
        (
            ("adds", -1, 0),
            *_each("stores", 0, 1, 2, entry=0),
            *_each("hears_ok", 0, 1, entry=0),
        ),
    ),
    Stage("C1 hangs. C2 tries to recover the ledger; fencing goes to all.", (("starts", -1, -1),)),
    Stage(
        "Fencing arrives at B1 & B2 and is acknowledged by both. The message to B3 is lost.",
        (*_each("fences", 0, 1), *_each("hears_fence", 0, 1)),
    ),
    Stage(
        "C2 finds that E1 is the last entry of the ledger and commits the endpoint in ZK.",
        (
            *_each("reads", 0, 1),
            *_each("hears_read", 0, 1),
            *_each("takes_back", 0, 1, entry=0),
            *_each("hears_write", 0, 1, entry=0),
            ("closes", -1, 0),
        ),
    ),
    Stage("B2 crashes and boots again with all unflushed operations lost.", _each("stops", 1)),
    Stage(
        "C1 wakes up and writes E2. B2 & B3 acknowledge, so C1 considers E2 as persisted.",
        (
            ("adds", -1, 1),
            ("refuses", 0, 1),
            *_each("stores", 1, 2, entry=1),
            *_each("hears_ok", 1, 2, entry=1),
        ),
    ),
)

SCENARIO_2 = (
    Stage("C1 adds E0 to B1, B2, B3.", (("adds", -1, 0),)),
    Stage(
        "B1 and B3 confirm. C1 confirms the write to its client.",
        (*_each("stores", 0, 2, entry=0), *_each("hears_ok", 0, 2, entry=0)),
    ),
    Stage("C2 starts recovery.", (("starts", -1, -1),)),
    Stage(
        "B2 fails to respond. C1 tries to change the ensemble but gets a version conflict.",
        (("write_refused", -1, -1),),
    ),
    Stage("B1 crashes and restarts, has lost E0.", _each("stops", 0)),
    Stage(
        "C2 fences the ledger on B1, B2, B3.",
        (*_each("fences", 0, 1, 2), *_each("hears_fence", 0, 1)),
    ),
    Stage("C2 reads E0. B1 responds NoSuchEntry.", (*_each("reads", 0), *_each("hears_read", 0))),
    Stage("B2 responds NoSuchEntry.", (*_each("reads", 1), *_each("hears_read", 1))),
    Stage("C2 closes the ledger as empty. Losing E0.", (("closes", -1, -1),)),
)


@dataclass(frozen=True, slots=True)
class Replay:
    """How far a published order is a path of a model, and what is wrong where it ends."""

    violation: str
    state: State
    stopped_at: str = ""


def replay(model: LedgerModel, stages: Sequence[Stage]) -> Replay:
    """Follow the stages; `stopped_at` names the step that the model does not have."""
    here = model.initial()
    for stage in stages:
        for move in stage.moves:
            after = follow(model, here, move)
            if after is None:
                return Replay("", here, f"{stage.text} ({move[0]} B{move[1]})")
            here = after
    return Replay(model.violation(here), here)
