"""ZooKeeper's answer to `mntr` as Prometheus reads it: names, summaries, what is left out."""

import pytest
from bookie.errors import UnavailableError
from bookie.monitoring.mntr import exposition
from prometheus_client.parser import text_string_to_metric_families

PLAIN = (
    "zk_version\t3.9.5-abc, built on 2026-01-01\nzk_server_state\tstandalone\nzk_znode_count\t9\n"
)
SUMMARY = """\
zk_avg_readlatency\t1.5
zk_min_readlatency\t1
zk_max_readlatency\t2
zk_cnt_readlatency\t2
zk_sum_readlatency\t3
zk_p50_readlatency\t1
zk_p95_readlatency\t1.75
zk_p99_readlatency\t2
zk_p999_readlatency\t4
"""


def samples(answer: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(exposition(answer))
    found = [one for family in families for one in family.samples]
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in found}


def test_a_figure_has_the_name_that_zookeepers_own_provider_gives_it() -> None:
    assert samples(PLAIN) == {("znode_count", ()): 9.0}


def test_a_summary_has_count_sum_and_quantiles_and_no_extremes() -> None:
    assert samples(SUMMARY) == {
        ("readlatency_count", ()): 2.0,
        ("readlatency_sum", ()): 3.0,
        ("readlatency", (("quantile", "0.5"),)): 1.0,
        ("readlatency", (("quantile", "0.95"),)): 1.75,
        ("readlatency", (("quantile", "0.99"),)): 2.0,
        ("readlatency", (("quantile", "0.999"),)): 4.0,
    }


def test_an_average_that_is_no_part_of_a_summary_is_a_figure() -> None:
    answer = "zk_avg_latency\t0.5\nzk_min_latency\t0\nzk_max_latency\t7\n"
    assert {name for name, _labels in samples(answer)} == {
        "avg_latency",
        "min_latency",
        "max_latency",
    }


def test_a_figure_of_each_top_znode_has_it_as_a_label() -> None:
    rows = "".join(
        f"zk_{part}_{znode}_write_per_namespace\t{value}\n"
        for znode in ('a"b', "c\\d")
        for part, value in (("cnt", 2), ("sum", 30))
    )
    assert samples(rows) == {
        ("write_per_namespace_count", (("key", 'a"b'),)): 2.0,
        ("write_per_namespace_sum", (("key", 'a"b'),)): 30.0,
        ("write_per_namespace_count", (("key", "c\\d"),)): 2.0,
        ("write_per_namespace_sum", (("key", "c\\d"),)): 30.0,
    }


def test_every_name_is_one_that_prometheus_takes() -> None:
    assert samples("zk_jvm-pause.time\t1\n") == {("jvm_pause_time", ()): 1.0}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("This ZooKeeper instance is not currently serving requests\n", "not currently serving"),
        ("mntr is not executed because it is not in the whitelist.\n", "not in the whitelist"),
        ("", "nothing"),
    ],
)
def test_without_figures_it_is_said_what_zookeeper_said(answer: str, said: str) -> None:
    with pytest.raises(UnavailableError, match=said):
        exposition(answer)
