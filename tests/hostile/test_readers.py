"""Whatever lies in a file, a znode or a message: a value, or an error of ours. Never another one,
never a hang, never much memory; and what is accepted reads the same when it is written again.
"""

import random
import tracemalloc
from pathlib import Path

import pytest
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role
from hostile_bytes import mutated
from hostile_targets import CORPUS, FILES, TARGETS, corpus_of, hold, read_credentials, seeds_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PEAK_BYTES_MAX = 256 * 1024 * 1024
"""Four times what a value may inflate to; what bombs hold without a bound is a hundred times it."""
EXAMPLES = 40
short = settings(
    derandomize=True,
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus_gets_a_value_or_an_error_of_ours(name: str) -> None:
    for title, raw in corpus_of(name).items():
        accepted = hold(TARGETS[name], raw)
        assert accepted or title != "good", title


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus_costs_little_memory(name: str) -> None:
    for title, raw in corpus_of(name).items():
        tracemalloc.start()
        try:
            hold(TARGETS[name], raw)
            _now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < PEAK_BYTES_MAX, title


@pytest.mark.parametrize("name", sorted(TARGETS))
@short
@given(seed=st.integers(0, 2**32))
def test_changed_bytes_get_a_value_or_an_error_of_ours(name: str, seed: int) -> None:
    target = TARGETS[name]
    hold(target, mutated(seeds_of(name), random.Random(seed), is_json=target.is_json))


def test_every_reader_has_a_corpus_and_every_corpus_a_reader() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_credentials_with_bytes_changed_are_taken_or_refused(tmp_path: Path) -> None:
    holder = Authority.make(tmp_path, "ours").sign("bookie-0", Role.BOOKIE)
    good = b"\n====\n".join((holder.folder / name).read_bytes() for name in FILES)
    assert read_credentials(good).name == "bookie-0"
    for seed in range(EXAMPLES):
        hold(TARGETS["credentials"], mutated([good], random.Random(seed), is_json=False))
