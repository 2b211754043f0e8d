"""A bookie's answer as the planner reads it."""

import pytest
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie_operator.control import health_of


@pytest.mark.parametrize(("counted", "expected"), [(True, 0), (False, None)])
def test_a_count_that_was_not_made_is_not_zero(counted: bool, expected: int | None) -> None:
    told = pb.Health(phase=pb.DRAINING, draining=True, ledgers_counted=counted)
    health = health_of(told)
    assert health is not None and health.draining
    assert health.ledgers_naming_it == expected


def test_a_phase_of_another_version_is_no_answer() -> None:
    assert health_of(pb.Health(phase=pb.PHASE_UNSPECIFIED)) is None
