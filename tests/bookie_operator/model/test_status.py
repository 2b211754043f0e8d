"""The status as it is published: nothing that says nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from bookie_operator.model.audit_status import MendStatus, ScrubStatus
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.manifest import _model_in
from bookie_operator.model.status import Blocked, ClusterStatus
from bookie_operator.model.task import TaskStatus
from operator_scenes import at
from pydantic import BaseModel

ONE = BookieStatus(id="bookie-0", state=BookieState.SERVING)


def test_empty_texts_and_lists_are_left_out_and_figures_stay() -> None:
    told = ClusterStatus(bookies=(ONE,)).as_dict()
    assert "blocked" not in told and told["limbo"]["ledgers"] == 0
    assert "pod" not in told["bookies"][0] and told["bookies"][0]["restarts"] == 0


def test_what_never_happened_has_no_section() -> None:
    assert not {"mend", "scrub", "rereplication"} & ClusterStatus().as_dict().keys()
    told = ClusterStatus(
        mend=MendStatus(attempt=1), scrub=ScrubStatus(scheduled_at=at(0))
    ).as_dict()
    assert told["mend"]["attempt"] == 1 and "scheduledAt" in told["scrub"]


def test_what_the_schema_requires_is_there_though_empty() -> None:
    blocked = Blocked(bookie="", action="Collect", predicate="Held", message="", since=at(0))
    told = ClusterStatus(blocked=(blocked,)).as_dict()["blocked"][0]
    required = {name for name, field in Blocked.model_fields.items() if field.is_required()}
    assert required <= told.keys()


def test_what_was_left_out_reads_back_as_it_was() -> None:
    status = ClusterStatus(bookies=(ONE,), mend=MendStatus(attempt=3))
    assert ClusterStatus.model_validate(status.as_dict()) == status


def models(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """It, and all that it is made of."""
    yield of
    for field in of.model_fields.values():
        if (part := _model_in(field.annotation)) is not None:
            yield from models(part)


PARTS = sorted({*models(ClusterStatus), *models(TaskStatus)}, key=lambda one: one.__name__)
BEGINS: dict[str, dict[str, Any]] = {
    "ClusterStatus": {"phase": "Pending"},
    "Incident": {"outcome": "Open"},
    "TaskStatus": {"phase": "Pending"},
    "TlsStatus": {"mode": "Off", "clients": "Off"},
    "UndecidedLedger": {"last_confirmed": -1},
}
"""What is not zero, empty, or unknown where a status does not say it."""


@pytest.mark.parametrize("part", PARTS, ids=lambda one: one.__name__)
def test_what_a_status_does_not_say_has_not_happened(part: type[BaseModel]) -> None:
    """A status of an operator from before a field was added says nothing of it."""
    optional = [(n, one) for n, one in part.model_fields.items() if not one.is_required()]
    given = [(n, one.get_default(call_default_factory=True)) for n, one in optional]
    made_up = {n: value for n, value in given if value and not isinstance(value, BaseModel)}
    assert made_up == BEGINS.get(part.__name__, {})
