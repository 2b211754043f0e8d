"""The bookies of a fleet as a table: a row each, that becomes a block where the page is narrow."""

from datetime import datetime
from typing import Final

from rich.text import Text

from bookie_operator.model.bookie_status import BookieStatus, RepairState
from bookie_operator.model.status import ClusterStatus
from bookie_operator.page.markup import escaped, line_of, list_of
from bookie_operator.status_tree.bookies import (
    STATE_STYLES,
    disk_text,
    last_stop,
    odd_disks,
    repair_text,
)

HEADS: Final = ("bookie", "state", "epoch", "last stop", "limbo", "disks", "node", "restarts")


def bookies_table(status: ClusterStatus, *, id_of: str, now: datetime) -> str:
    """The table of bookies, without columns that are empty for all. `id_of`: prefix of the ids of
    this cluster's elements.
    """
    rows = [_cells(one, id_of=id_of, now=now) for one in status.bookies]
    said = [place for place in range(len(HEADS)) if any(row[place] for row in rows)]
    heads = "".join(f'<th scope="col">{HEADS[place]}</th>' for place in said)
    body = "".join(
        "<tr>" + "".join(f'<td data-of="{HEADS[p]}">{row[p]}</td>' for p in said) + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _cells(bookie: BookieStatus, *, id_of: str, now: datetime) -> tuple[str, ...]:
    return (
        escaped(bookie.id),
        _state(bookie, now),
        escaped(bookie.boot_epoch or ""),
        _stop(bookie),
        _limbo(bookie),
        _disks(bookie, id_of),
        escaped(bookie.node),
        escaped(bookie.restarts or ""),
    )


def _state(bookie: BookieStatus, now: datetime) -> str:
    """Its state, what is the matter, and how far a repair is."""
    parts = [line_of(Text(bookie.state.value, STATE_STYLES.get(bookie.state, "cyan")))]
    if bookie.message:
        parts.append(escaped(bookie.message))
    if bookie.losses_recorded:
        parts.append(line_of(Text(f"losses recorded: {bookie.losses_recorded}", "bold red")))
    repair = bookie.repair
    if repair is not None and repair.state is not RepairState.FINISHED:
        far = f'max="{repair.ledgers_total}" value="{repair.ledgers_cleared}"'
        name = f"repair of {escaped(bookie.id)}"
        bar = f'<progress aria-label="{name}" {far}></progress> ' if repair.ledgers_total else ""
        parts.append(f"{bar}repair {line_of(repair_text(repair, now))}")
    return f"<div>{'<br>'.join(parts)}</div>"


def _stop(bookie: BookieStatus) -> str:
    stop = bookie.last_shutdown
    return line_of(Text(last_stop(bookie), "" if stop is None or stop.clean else "yellow"))


def _limbo(bookie: BookieStatus) -> str:
    if not bookie.limbo_ledgers and not bookie.unchecked_ledgers:
        return ""
    words = f"{bookie.limbo_ledgers} in limbo, {bookie.unchecked_ledgers} unchecked"
    return line_of(Text(words, "yellow"))


def _disks(bookie: BookieStatus, id_of: str) -> str:
    if not bookie.disks:
        return ""
    odd, unseen = odd_disks(bookie), [disk for disk in bookie.disks if not disk.verdict]
    word = Text(f"{len(bookie.disks)} ok")
    if odd:
        word = Text(f"{len(odd)} of {len(bookie.disks)} not ok", "yellow")
    elif unseen:
        word = Text(f"{len(unseen)} not looked at yet", "dim")
    summary = line_of(word)
    name = f"{id_of}-{escaped(bookie.id)}-disks"
    listed = list_of([disk_text(disk) for disk in bookie.disks])
    return f'<details id="{name}"><summary id="{name}-of">{summary}</summary>{listed}</details>'
