"""Columns to and from Arrow, and a cluster for code that may block.

Free of Spark, so that it is tested without one; `sources` and `engine` use it. No Python per row:
numpy's memory is Arrow's, and the other way round.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from bookie.ids import BookieId
from bookie.protocol.availability import Ids
from bookie.repair.engine.opening import open_cluster
from bookie.repair.judge.columns import (
    AnswerColumns,
    Blobs,
    Flags,
    Intervals,
    LedgerColumns,
    ReadColumns,
    bounds_of,
)
from bookie.repair.look.cluster import Cluster

Value = TypeVar("Value")
Opening = Callable[[str], AbstractAsyncContextManager[Cluster]]
"""Opens the cluster at a URL."""

LEDGERS_DDL: Final = (
    "ledger_id long not null, version long not null, closed boolean not null, "
    "accepted_loss boolean not null, last_entry_id long not null, ensemble_size long not null, "
    "write_quorum long not null, ack_quorum long not null, "
    "fragments array<struct<first_entry_id: long, ensemble: array<string>>> not null"
)
_ANSWER_DDL: Final = (
    "bookie_id: string, status: long, entries: binary, "
    "limbo: boolean, unchecked: boolean, lac: long, lost: binary"
)
_INTERVALS_DDL: Final = "array<struct<first: long, last: long>>"
AVAILABILITY_DDL: Final = f"{LEDGERS_DDL}, answers array<struct<{_ANSWER_DDL}>> not null"
ENTRIES_DDL: Final = (
    f"{LEDGERS_DDL}, answers array<struct<{_ANSWER_DDL}, corrupt: {_INTERVALS_DDL}, "
    f"unread: {_INTERVALS_DDL}, bytes_read: long>> not null"
)


class BlockingCluster:
    """A cluster and an event loop of its own, for a Spark task: enter it, then `run` coroutines."""

    def __init__(self, metadata_url: str, opening: Opening = open_cluster) -> None:
        self._runner = asyncio.Runner()
        self._opening = opening(metadata_url)
        self._cluster: Cluster | None = None
        """The open cluster; None before the first use and after the end."""

    def __enter__(self) -> "BlockingCluster":
        try:
            self._cluster = self._runner.run(self._enter())
        except BaseException:
            self._runner.close()
            raise
        return self

    async def _enter(self) -> Cluster:
        return await self._opening.__aenter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async def leave() -> None:
            await self._opening.__aexit__(None, None, None)

        try:
            self._runner.run(leave())
        finally:
            self._runner.close()

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for one piece of work."""
        return self._runner.run(work)


# To Arrow
def arrow_batch(
    ledgers: LedgerColumns,
    answers: AnswerColumns | None = None,
    reads: ReadColumns | None = None,
    *,
    schema: pa.Schema,
) -> pa.RecordBatch:
    """One row per ledger, of `bookie_ledgers`; with answers of `bookie_availability`; with what was
    read besides of `bookie_entries`.
    """
    columns = [*_flat_columns(ledgers), _fragments(ledgers)]
    if answers is not None:
        columns.append(_answers(ledgers, answers, reads))
    typed = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def _flat_columns(ledgers: LedgerColumns) -> list[pa.Array]:
    return [
        pa.array(column)
        for column in (
            ledgers.ledger_id, ledgers.version, ledgers.is_closed, ledgers.is_accepted,
            ledgers.last_entry_id, ledgers.ensemble_size, ledgers.write_quorum, ledgers.ack_quorum,
        )
    ]  # fmt: skip


def _fragments(ledgers: LedgerColumns) -> pa.Array:
    sizes = np.repeat(ledgers.ensemble_size, np.diff(ledgers.fragments))
    ensembles = _list(bounds_of(sizes, len(sizes)), _names(ledgers.members, ledgers.bookies))
    parts = pa.StructArray.from_arrays(
        [pa.array(ledgers.first_entry_id), ensembles], ["first_entry_id", "ensemble"]
    )
    return _list(ledgers.fragments, parts)


def _answers(ledgers: LedgerColumns, answers: AnswerColumns, reads: ReadColumns | None) -> pa.Array:
    columns = {
        "bookie_id": _names(answers.bookie, ledgers.bookies),
        "status": pa.array(answers.status),
        "entries": _binary(answers.entries),
        "limbo": pa.array(answers.limbo),
        "unchecked": pa.array(answers.unchecked),
        "lac": pa.array(answers.lac),
        "lost": _binary(answers.lost),
    }
    if reads is not None:
        columns |= {
            "corrupt": _intervals(reads.corrupt),
            "unread": _intervals(reads.unread),
            "bytes_read": pa.array(reads.bytes_read),
        }
    rows = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return _list(answers.ledgers, rows)


def _intervals(found: Intervals) -> pa.Array:
    pairs = [pa.array(found.first), pa.array(found.last)]
    return _list(found.bounds, pa.StructArray.from_arrays(pairs, ["first", "last"]))


def _list(bounds: Ids, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), values)


def _names(codes: Ids, bookies: tuple[BookieId, ...]) -> pa.Array:
    names = pa.array(list(bookies), pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names).cast(pa.string())


def _binary(blobs: Blobs) -> pa.Array:
    bounds = pa.py_buffer(blobs.bounds.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(blobs), [None, bounds, pa.py_buffer(blobs.data)])


# From Arrow
def columns_of(batch: pa.RecordBatch) -> tuple[LedgerColumns, AnswerColumns]:
    """The columns in rows of `bookie_availability` or `bookie_entries`."""
    fragments, parts = _unlisted(batch.column("fragments"))
    _ensembles, members = _unlisted(parts.field("ensemble"))
    held, said = _unlisted(batch.column("answers"))
    names = pa.concat_arrays([members, said.field("bookie_id")]).dictionary_encode()
    codes = names.indices.to_numpy().astype(np.int64)
    ledgers = LedgerColumns(
        ledger_id=_ids(batch.column("ledger_id")),
        version=_ids(batch.column("version")),
        is_closed=_flags(batch.column("closed")),
        is_accepted=_flags(batch.column("accepted_loss")),
        last_entry_id=_ids(batch.column("last_entry_id")),
        ensemble_size=_ids(batch.column("ensemble_size")),
        write_quorum=_ids(batch.column("write_quorum")),
        ack_quorum=_ids(batch.column("ack_quorum")),
        fragments=fragments,
        first_entry_id=_ids(parts.field("first_entry_id")),
        members=codes[: len(members)],
        bookies=tuple(map(BookieId, names.dictionary.to_pylist())),
    )
    answers = AnswerColumns(
        ledgers=held,
        bookie=codes[len(members) :],
        status=_ids(said.field("status")),
        limbo=_flags(said.field("limbo")),
        unchecked=_flags(said.field("unchecked")),
        lac=_ids(said.field("lac")),
        entries=_blobs(said.field("entries")),
        lost=_blobs(said.field("lost")),
    )
    return ledgers, answers


def bytes_read_of(batch: pa.RecordBatch) -> int:
    """What it took to make these rows, read from bookies: nothing but for `bookie_entries`."""
    if batch.column("answers").type.value_type.get_field_index("bytes_read") < 0:
        return 0
    _bounds, said = _unlisted(batch.column("answers"))
    return int(_ids(said.field("bytes_read")).sum())


def _ids(column: pa.Array) -> Ids:
    found: Ids = column.to_numpy(zero_copy_only=False)
    return found


def _flags(column: pa.Array) -> Flags:
    found: Flags = column.to_numpy(zero_copy_only=False)
    return found


def _unlisted(column: pa.ListArray) -> tuple[Ids, pa.Array]:
    """Bounds from 0 on, and the values between them, also of a slice."""
    bounds = column.offsets.to_numpy().astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    return bounds - first, column.values.slice(first, last - first)


def _blobs(column: pa.BinaryArray) -> Blobs:
    _valid, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    first, last = int(bounds[0]), int(bounds[-1])
    return Blobs(bounds.astype(np.int64) - first, raw[first:last])
