"""Columns through Arrow and back, also of a slice, as Spark cuts batches."""

import random
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import answer_columns, ledger_columns, random_case
from bookie.ids import LedgerId
from bookie.repair.judge.bulk import judge_bulk
from bookie.repair.judge.columns import AnswerColumns, LedgerColumns
from bookie.repair.spark.arrow import arrow_batch, columns_of

SCHEMA = pa.schema(
    [("ledger_id", pa.int64()), ("version", pa.int64()), ("closed", pa.bool_()),
     ("accepted_loss", pa.bool_()), ("last_entry_id", pa.int64()), ("ensemble_size", pa.int64()),
     ("write_quorum", pa.int64()), ("ack_quorum", pa.int64()),
     ("fragments", pa.list_(pa.struct({"first_entry_id": pa.int64(),
                                       "ensemble": pa.list_(pa.string())}))),
     ("answers", pa.list_(pa.struct({"bookie_id": pa.string(), "status": pa.int64(),
                                     "entries": pa.binary(), "limbo": pa.bool_(),
                                     "unchecked": pa.bool_(), "lac": pa.int64(),
                                     "lost": pa.binary()})))]
)  # fmt: skip


def columns(seeds: range) -> tuple[LedgerColumns, AnswerColumns]:
    cases = [random_case(random.Random(seed), LedgerId(seed)) for seed in seeds]
    ledgers = ledger_columns([case.metadata for case in cases])
    return ledgers, answer_columns(ledgers, [case.answers for case in cases])


def plain(table: LedgerColumns | AnswerColumns, names: tuple[str, ...]) -> dict[str, Any]:
    """Everything but indexes of bookies, which are numbered anew."""
    values = {field.name: getattr(table, field.name) for field in fields(table)}
    for name in ("entries", "lost"):
        if name in values:
            values[name] = [values[name][row] for row in range(len(values[name]))]
    for name in values.keys() & {"members", "bookie"}:
        values[name] = [names[code] for code in values[name]]
    values.pop("bookies", None)
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}


@pytest.mark.parametrize(("first", "count"), [(0, 60), (0, 20), (17, 30), (59, 1), (30, 0)])
def test_columns_survive_arrow_whole_and_sliced(first: int, count: int) -> None:
    batch = arrow_batch(*columns(range(60)), schema=SCHEMA).slice(first, count)
    wanted, found = columns(range(first, first + count)), columns_of(batch)
    for one, other in zip(wanted, found, strict=True):
        assert plain(one, wanted[0].bookies) == plain(other, found[0].bookies)


def test_a_batch_from_arrow_is_judged_as_before() -> None:
    ledgers, answers = columns(range(300))
    again = columns_of(arrow_batch(ledgers, answers, schema=SCHEMA))
    wanted, found = judge_bulk(ledgers, answers), judge_bulk(*again)
    assert found.is_doubtful.tolist() == wanted.is_doubtful.tolist()
    assert found.through.tolist() == wanted.through.tolist()
