"""A path of states told as the source texts tell theirs: "1. W adds e0 to B0, B1, B2".

A search knows states only, with bookies sorted; `walk` makes the same path again with every bookie
in its place, so that B1 is the same bookie from the first line to the last.
"""

from collections.abc import Callable, Iterator, Sequence

from model_bookie import Act
from model_ledger import LedgerModel, Step
from model_state import Bookie, Mark, Phase, Shared, State, Status

Walked = tuple[Step, State]
Shown = Callable[[Act, str, str], str]
Move = tuple[str, int, int]
"""Verb, position of the bookie (-1 = none), entry (-1 = as it comes)."""


def follow(model: LedgerModel, here: State, move: Move) -> State | None:
    """The state after one move that is named, None when the model has no such move here."""
    verb, position, entry = move
    for (at, act), after in model.moves(here, every=True):
        if (act.verb, at) == (verb, position) and entry in (-1, act.entry):
            return after
    return None


def walk(model: LedgerModel, path: Sequence[State]) -> Iterator[Walked]:
    """Steps and states of a path of canonical states, bookies in their places."""
    here = model.initial()
    for wanted in path[1:]:
        step, here = next(
            (step, after)
            for step, after in model.moves(here, every=True)
            if model.canonical(after) == wanted
        )
        yield step, here


def tell(model: LedgerModel, path: Sequence[State]) -> list[str]:
    """The numbered story of a path."""
    lines, before = [], model.initial()
    for number, (step, after) in enumerate(walk(model, path), start=1):
        lines.append(f"{number}. {sentence(model, before, step, after)}")
        before = after
    return lines


def sentence(model: LedgerModel, before: State, step: Step, after: State) -> str:
    """One step, and what follows from it for whoever acted."""
    at, act = step
    shared, bookies = model.look(before)
    now, changed = model.look(after)
    bookie = f"B{at}" if at >= 0 else ""
    plain = SENTENCES[act.verb](act, bookie, recoverer(shared, act.who))
    return plain + _whom(act, bookies, changed) + _consequence(shared, now, act)


def recoverer(shared: Shared, who: int) -> str:
    if who < 0:
        return ""
    return "R" if len(shared.recoverers) == 1 else f"R{who + 1}"


def entries(mask: int) -> str:
    found = [f"e{entry}" for entry in range(mask.bit_length()) if mask >> entry & 1]
    return ", ".join(found) or "nothing"


def end_at(entry: int) -> str:
    return f"at e{entry}" if entry >= 0 else "empty"


def _whom(act: Act, before: Sequence[Bookie], after: Sequence[Bookie]) -> str:
    if act.verb != "adds":
        return ""
    asked = [at for at, bookie in enumerate(after) if bookie.adds != before[at].adds]
    return " to " + ", ".join(f"B{at}" for at in asked)


def _consequence(before: Shared, after: Shared, act: Act) -> str:
    said = ""
    if after.acked > before.acked:
        said += f"; {entries((1 << after.acked) - (1 << before.acked))} acknowledged"
    if act.who >= 0:
        was, is_now = before.recoverers[act.who], after.recoverers[act.who]
        if is_now.phase is not was.phase:
            said += PHASES.get(is_now.phase, "").format(end=end_at(is_now.turn - 1), e=is_now.turn)
        if is_now.pending & ~was.pending:
            found = entries(is_now.pending & ~was.pending)
            said += f"; found, to be written back: {found}"
    return said


PHASES = {
    Phase.READ: "; fenced enough, sends fencing reads",
    Phase.SETTLE: "; the ledger ends {end}",
    Phase.ABORTED: "; e{e} cannot be decided: reports a possible loss from it on",
}
MARKS = {Mark.LIMBO: "limbo", Mark.UNCHECKED: "unchecked", Mark.CLEARING: "judged before"}

SENTENCES: dict[str, Shown] = {
    # The writer
    "adds": lambda a, b, r: f"W adds e{a.entry}",
    "hears_ok": lambda a, b, r: f"W hears that {b} stored e{a.entry}",
    "hears_fenced": lambda a, b, r: f"W hears that {b} is fenced and stops",
    "replaces": lambda a, b, r: f"W gives {b} up: B{a.other} is to replace it from e{a.entry} on",
    "changes": lambda a, b, r: f"W's ensemble change is in the metadata, from e{a.entry} on",
    "change_refused": lambda a, b, r: "W's ensemble change loses its compare-and-set; W stops",
    "write_refused": lambda a, b, r: "W wants to change the metadata, finds it not OPEN and stops",
    "closes_own": lambda a, b, r: f"W closes the ledger {end_at(a.entry)}",
    # Bookies
    "stores": lambda a, b, r: f"{b} stores e{a.entry}",
    "refuses": lambda a, b, r: f"{b} refuses e{a.entry}: fenced",
    "cannot_write": lambda a, b, r: f"{b} answers e{a.entry}: not writable here",
    "fences": lambda a, b, r: f"{b} fences for {r} and tells its LAC",
    "fences_unknown": lambda a, b, r: f"{b} fences for {r}; its LAC is unknown",
    "reads": lambda a, b, r: f"{b} answers {r}'s read: has {entries(a.entry)}",
    "read_fails": lambda a, b, r: f"{b} cannot read what it has and answers {r}",
    "takes_back": lambda a, b, r: f"{b} stores e{a.entry} written back by {r}",
    "stops": lambda a, b, r: f"{b} stops uncleanly and has {entries(a.entry)}",
    "loses_disk": lambda a, b, r: f"{b} stops and loses its disks",
    "loses_notes": lambda a, b, r: f"{b} stops, loses its notes and has {entries(a.entry)}",
    "notes": lambda a, b, r: f"{b} notes that it may have unsynced entries",
    "unnotes": lambda a, b, r: f"{b} takes its note back",
    "begins_flush": lambda a, b, r: f"{b} begins a checkpoint",
    "flushes": lambda a, b, r: f"{b} has ended its checkpoint",
    "stores_early": lambda a, b, r: f"{b} stores e{a.entry} and answers nothing yet",
    "looks": lambda a, b, r: f"{b} reads the metadata in its boot, and marks",
    "restarts": lambda a, b, r: f"{b} stops cleanly and boots",
    "boots": lambda a, b, r: f"{b} finishes its boot",
    "shown": lambda a, b, r: f"a reader is shown the ledger up to e{a.entry} by {b}",
    "copied": lambda a, b, r: f"repair copies e{a.entry} to {b}",
    "clears": lambda a, b, r: f"{b} clears its mark ({MARKS[Mark(a.entry)]})",
    "judges": lambda a, b, r: f"{b} judges that its mark may go ({MARKS[Mark(a.entry)]})",
    "found_named": lambda a, b, r: f"{b} looks again and finds itself named",
    "finishes": lambda a, b, r: f"{b} looks for the last time and lifts its boundary of checks",
    "collects": lambda a, b, r: f"{b} collects the deleted ledger",
    "learns": lambda a, b, r: f"{b} stores the LAC e{a.entry}, which the writer sent alone",
    # Moves
    "plans_move": lambda a, b, r: f"a drain is to put B{a.other} for {b} in earlier fragments",
    "copies_move": lambda a, b, r: f"the drain copies e{a.entry} to {b}",
    "verifies_move": lambda a, b, r: f"{b} has synced and has all that it is to take over",
    "moves": lambda a, b, r: f"the drain's change is in the metadata: {b} for B{a.other}",
    "gives_up_move": lambda a, b, r: "the drain finds other metadata and starts over",
    # Recoverers
    "starts": lambda a, b, r: f"{r} sets IN_RECOVERY and sends fences",
    "plans": lambda a, b, r: f"{r} reads the metadata",
    "tries_again": lambda a, b, r: f"{r} dies; the next attempt fences again",
    "decides_again": lambda a, b, r: f"{r} tries again and sends fences",
    "accepts_loss": lambda a, b, r: (
        f"a person accepts the loss from e{a.entry} on; {r} fences again"
    ),
    "hears_fence": lambda a, b, r: f"{r} hears the fence of {b}",
    "hears_read": lambda a, b, r: f"{r} hears the read of {b}",
    "hears_write": lambda a, b, r: f"{r} hears that {b} stored e{a.entry}",
    "replaces_local": lambda a, b, r: f"{r} takes B{a.other} for {b} from e{a.entry} on, locally",
    "closes": lambda a, b, r: f"{r} closes the ledger {end_at(a.entry)}",
    "adopts": lambda a, b, r: f"{r} finds the ledger closed {end_at(a.entry)} and adopts that",
    # Repair and people
    "lost": lambda a, b, r: f"every member has answered, none has e{a.entry}: recorded as lost",
    "deletes": lambda a, b, r: "the ledger is deleted",
}


def summary(model: LedgerModel, state: State) -> str:
    """The last line of a counterexample: what the store says against what was acknowledged."""
    shared, bookies = model.look(state)
    status = Status(shared.status).name
    end = f" {end_at(shared.end - 1)}" if shared.is_closed else ""
    held = "; ".join(f"B{at} has {entries(b.held)}" for at, b in enumerate(bookies))
    return f"ledger {status}{end}, acknowledged {end_at(shared.acked - 1)}; {held}"
