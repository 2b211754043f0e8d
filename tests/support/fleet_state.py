"""What a bookie of a story is, and what the metadata store holds, line by line."""

from collections.abc import Iterator
from typing import Any, Final

from bookie.metadata.memory import MemoryCluster
from bookie.server.http import BookieCollector, Gauges
from bookie.storage.storage import Storage
from bookie.testing.simulation.bookies import SimBookie
from fleet_words import shown

_OF_THE_MACHINE: Final = ("_bucket", "_sum", "_created")
"""Samples that say how long something took by the machine's own clock."""


def state_of(bookie: SimBookie) -> Iterator[str]:
    name = bookie.name
    if not bookie.is_up or bookie.bookie is None:
        yield f"{name}: down, ended with {bookie.exit_code}"
    else:
        state, control = bookie.bookie.state, bookie.bookie.control
        reasons = {reason.name: why for reason, why in state.read_only_reasons.items()}
        yield f"{name}: {state.phase.name} epoch {state.boot_epoch} {state.explanation!r} {reasons}"
        for sample in _figures(bookie):
            yield f"{name} figure: {sample}"
        if control.booted is not None:
            storage = control.booted.storage
            for line in ledgers_of(storage):
                yield f"{name} {line}"
    for directory in sorted(bookie.disk.directories):
        names = bookie.disk.list_directory(directory)
        if names and directory.parts[1:2] == (name,):
            yield f"{name} files: {directory.relative_to(f'/{name}')}: {' '.join(names)}"


def _figures(bookie: SimBookie) -> Iterator[str]:
    """All metrics that are not 0 and do not come from the storage's own gauges."""
    assert bookie.bookie is not None
    for metric in BookieCollector(bookie.bookie.state, Gauges()).collect():
        for sample in metric.samples:
            if sample.value and not sample.name.endswith(_OF_THE_MACHINE):
                labels = ",".join(f"{k}={v}" for k, v in sample.labels.items())
                yield f"{sample.name.removeprefix('bookie_')}{{{labels}}} {sample.value:g}"


def ledgers_of(storage: Storage) -> Iterator[str]:
    yield f"boundaries: {shown(storage.boundary())}, {shown(storage.unchecked_boundary())}"
    yield f"unflushed bytes {storage.unflushed_bytes}, noted {shown(storage.noted_ledgers())}"
    for ledger_id in sorted(storage.ledger_ids()):
        record = storage.record(ledger_id)
        parts = [
            f"holds {shown(storage.held(ledger_id))}",
            f"lac {storage.lac(ledger_id)}",
            f"lost {shown(storage.loss(ledger_id))}",
            "unchecked" if storage.is_unchecked(ledger_id) else "",
            shown(record),
        ]
        yield f"ledger {ledger_id}: {', '.join(filter(None, parts))}"
    for decision in storage.decisions:
        yield f"decision: {shown(decision)}"


def store_of(cluster: MemoryCluster) -> Iterator[str]:
    yield f"metadata: instance {cluster.instance_id}"
    tables: dict[str, dict[Any, Any]] = {
        "ledger": cluster.ledgers,
        "cookie": cluster.cookies,
        "boot": cluster.boots,
        "value": cluster.values,
        "registered": {name: info for name, (_store, info) in cluster.registered.items()},
        "mark": cluster.marks,
    }
    for what, table in tables.items():
        for key in sorted(table):
            yield f"metadata: {what} {key}: {shown(table[key])}"
