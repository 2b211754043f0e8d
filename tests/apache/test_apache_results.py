"""What the runner makes of outcomes: nothing that did not pass is counted as passed."""

import pytest
from apache_expected import FILE, Expected, differs
from apache_page import page
from apache_report import Report, counted
from apache_results import FAILED, NEEDS, PASSED, Result, read, settled, split

CLASS = "org.apache.bookkeeper.client.SomeTest"


def result(test: str, outcome: str, why: str = "") -> Result:
    return Result(f"client.SomeTest.{test}", outcome, why, 1, f"[{test}]")


def expected(section: str, *tests: str) -> Expected:
    names = ", ".join(f'"client.SomeTest.{test}"' for test in tests)
    return Expected.of(f'[[{section}]]\ntests = [{names}]\nwhy = "because"\n')


def test_the_last_word_on_a_test_counts() -> None:
    lines = ["planned\ttestA\t\t\t[a]", "started\ttestA\t\t\t[a]", "passed\ttestA\t\t7\t[a]"]
    assert read(lines, CLASS) == [Result("client.SomeTest.testA", PASSED, "", 7, "[a]")]


@pytest.mark.parametrize("word", ["planned", "started"])
def test_a_test_without_an_end_has_failed(word: str) -> None:
    (found,) = read([f"{word}\ttestA\t\t\t[a]"], CLASS)
    assert found.outcome == FAILED and "did not end" in found.why


def test_a_second_run_alone_decides_and_is_said() -> None:
    (found,) = settled([result("a", FAILED, "slow")], [result("a", PASSED)])
    assert found.words == "passed (second run)"


def test_what_is_not_run_again_stays() -> None:
    first = [result("a", NEEDS, "BookieImpl.getLedgerStorage"), result("b", PASSED)]
    assert settled(first, []) == first


def test_a_failure_without_a_reason_is_a_surprise() -> None:
    (said,) = expected("ours", "b").surprises([result("a", FAILED, "x")], "ours", is_whole=False)
    assert "client.SomeTest.a failed" in said


def test_a_listed_test_that_passes_is_a_surprise() -> None:
    (said,) = expected("both", "a").surprises([result("a", PASSED)], "apache", is_whole=False)
    assert "client.SomeTest.a passed" in said


def test_a_listed_test_that_is_none_is_a_surprise_of_a_whole_run() -> None:
    (said,) = expected("ours", "a", "b").surprises([result("a", FAILED)], "ours", is_whole=True)
    assert "client.SomeTest.b" in said


@pytest.mark.parametrize("outcome", [PASSED, FAILED])
def test_an_unsteady_test_surprises_nobody(outcome: str) -> None:
    assert not expected("unsteady", "a").surprises([result("a", outcome)], "ours", is_whole=True)


def test_a_reason_of_one_fleet_is_none_for_the_other() -> None:
    assert expected("ours", "a").surprises([result("a", FAILED)], "apache", is_whole=False)


def test_a_name_stands_for_all_runs_of_a_test() -> None:
    listed = expected("both", "a")
    assert listed.reason("client.SomeTest.a[1]", "ours") and listed.reason(
        "client.SomeTest.a [2] x", "ours"
    )


@pytest.mark.parametrize("text", ["[[theirs]]", '[[ours]]\ntests = ["a", "a"]\nwhy = ""'])
def test_a_wrong_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"theirs|twice"):
        Expected.of(text)


def test_every_listed_test_has_a_reason() -> None:
    reasons = Expected.of(FILE.read_text(encoding="utf-8")).reasons
    assert all(len(reason.why) > 20 for reason in reasons)


def test_a_run_renews_its_own_side_alone() -> None:
    report = Report({}, {"client.SomeTest.a": {"ours": "failed: x", "apache": "passed"}})
    report.renew("ours", {"seconds": 1}, [result("b", PASSED)], is_whole=True)
    assert report.tests == {
        "client.SomeTest.a": {"apache": "passed"},
        "client.SomeTest.b": {"ours": "passed"},
    }


def test_a_run_of_some_classes_leaves_the_others_and_is_named_beside_the_whole_one() -> None:
    report = Report({"ours": [{"classes": "all"}]}, {"meta.OtherTest.a": {"ours": "passed"}})
    report.renew("ours", {}, [result("b", PASSED)], is_whole=False)
    assert report.counts("ours")["passed"] == 2
    assert [run["classes"] for run in report.runs["ours"]] == ["all", ["client.SomeTest"]]


def test_needs_is_neither_passed_nor_failed() -> None:
    counts = counted([result("a", NEEDS, "x")])
    assert counts == {"passed": 0, "failed": 0, "needs": 1, "skipped": 0}


def test_what_fails_on_ours_alone_is_counted() -> None:
    assert differs({"ours": "failed: x", "apache": "passed (second run)"})
    assert not differs({"ours": "failed: x", "apache": "failed: x"})
    assert not differs({"ours": "needs: x", "apache": "passed"})


def test_a_test_belongs_to_its_class() -> None:
    assert split("client.api.SomeTest.testA[0.5]") == ("client.api.SomeTest", "testA[0.5]")


def test_the_page_has_every_test_with_both_sides() -> None:
    report = Report({}, {"client.SomeTest.a": {"ours": "passed", "apache": "failed: a|b"}})
    assert "| `a` | passed | failed: a\\|b |" in page(report, Expected(()))
