"""The status as it is published: nothing that says nothing."""

from bookie_operator.model.audit_status import MendStatus, ScrubStatus
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.status import Blocked, ClusterStatus
from operator_scenes import at

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
