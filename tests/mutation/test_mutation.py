"""The mutation run's pure parts: what is planted, who judges it, what is said of it."""

import ast
import textwrap
import types
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="the extra `dev` brings mutmut, whose operators are used")

import mutation_equivalents as equivalents
import mutation_map
from mutation_choice import chosen, mirror_of, sample
from mutation_code import changed_codes, functions_in, plant
from mutation_kept import Kept
from mutation_made import made
from mutation_map import SOURCES, Reach, RecordedTest, functions_of
from mutation_operators import Mutant, modules_of, mutants_of, short_diff
from mutation_report import added, by_package, figures, row, so_far, survivors, told
from mutation_run import Task, Work
from mutation_session import Outcome, Verdict, forked

ROOT = Path(__file__).parents[2]
QUORUM = "bookie/src/bookie/protocol/quorum.py"
OWN = "tests/bookie/protocol/test_quorum.py"
NONE = (0, "", 0)
"""A mutant that changes nothing."""


def diffs(text: str) -> set[str]:
    return {mutant.diff for mutant in mutants_of("m", "m.py", text)}


def acts(node: ast.AST) -> bool:
    """Something may be otherwise once it ran."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="_check"), args=[])):
            return False
        case ast.Raise() | ast.Delete() | ast.AugAssign() | ast.Await():
            return True
        case ast.Expr(value=ast.Call()) | ast.Attribute(ctx=ast.Store()):
            return True
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def mutant(line: int = 3, function: str = "covers") -> Mutant:
    return Mutant(
        "bookie.protocol.quorum",
        QUORUM,
        function,
        line,
        (line,),
        "swap_op",
        "- a\n+ b",
        "",
        (0, "", 0),
    )


# What is planted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b\n", "- x = a < b\n+ x = a <= b"),
        ("if a and b:\n    f()\n", "- if a and b:\n+ if (b):"),
        ("if a:\n    f()\n", "- if a:\n+ if False:"),
        ("if a:\n    f()\n", "- f()\n+ pass"),
        ("x = [a for a in b if a.c]\n", "- x = [a for a in b if a.c]\n+ x = [a for a in b]"),
        ("x = min(a, b)\n", "- x = min(a, b)\n+ x = max(a, b)"),
        ("raise a\n", "- raise a\n+ pass"),
        ("A = B | C\n", "- A = B | C\n+ A = B & C"),
        ("@property\ndef b(self):\n    return not c\n", "- return not c\n+ return c"),
    ],
)  # fmt: skip
def test_what_is_planted(text: str, expected: str) -> None:
    assert expected in diffs(text)


@pytest.mark.parametrize(
    "text",
    [
        "assert a < b\n",
        "x: int | None\n",
        "Effect = Read | Written[int] | None\n",
        '"""Words."""\n',
        "x = 'words'\n",
        "log.info(a, 1)\n",
        "self._check()\n",
        "import a\n",
        "@d(True)\ndef f(): ...\n",
        "for a in zip(strict=True):\n    pass\n",
    ],
)
def test_what_is_no_behaviour_is_left_alone(text: str) -> None:
    assert not diffs(text)


def test_a_check_without_arguments_holds_nothing_but_asserts() -> None:
    for path in [path for source in SOURCES for path in (ROOT / source).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "_check":
                changes = {each for part in node.body for each in ast.walk(part)}
                assert len(node.args.args) > 1 or not any(map(acts, changes)), path


def test_none_does_not_stand_for_what_is_as_false() -> None:
    assert diffs("x = False\n") == {"- x = False\n+ x = True"}


def test_every_mutant_differs_compiles_and_names_its_function() -> None:
    text = (ROOT / QUORUM).read_text(encoding="utf-8")
    found = mutants_of("bookie.protocol.quorum", QUORUM, text)
    names = {name for name, _lines in functions_of(text)}
    assert len({one.text for one in found}) == len(found) > 20
    assert {one.function for one in found} <= names
    for one in found:
        compile(one.text, "mutant", "exec")
        assert one.text != text and one.line in one.lines


def test_mutants_that_were_made_before_are_the_same(tmp_path: Path) -> None:
    text = (ROOT / QUORUM).read_text(encoding="utf-8")
    new, kept = (made("bookie.protocol.quorum", QUORUM, text, folder=tmp_path) for _ in range(2))
    assert new == kept and len(list(tmp_path.iterdir())) == 1
    assert made("bookie.protocol.quorum", QUORUM, f"{text}\n", folder=tmp_path) != new
    assert len(list(tmp_path.iterdir())) == 2


def test_a_diff_ignores_indentation() -> None:
    assert short_diff("if a:\n    b\n", "if a:\n    c\n") == "- b\n+ c"


def test_modules_are_named_alone_by_package_or_by_how_they_begin() -> None:
    assert modules_of("bookie.protocol.quorum", root=ROOT) == {"bookie.protocol.quorum": QUORUM}
    assert "bookie.protocol.quorum" in modules_of("bookie.protocol", root=ROOT)
    assert {"bookie.client.log", "bookie.client.log_list"} <= modules_of(
        "bookie.client.log*", root=ROOT
    ).keys()
    assert not modules_of("bookie.nothing", root=ROOT)


def test_the_code_of_a_function_is_exchanged_under_every_name_it_has() -> None:
    old = textwrap.dedent(
        """
        def f(a):
            return a < 1

        class C:
            g = f

            @property
            def h(self):
                return [x < 1 for x in (1,)]
        """
    )
    module = types.ModuleType("planted")
    exec(compile(old, "/overlay/planted.py", "exec"), module.__dict__)
    codes = changed_codes(old, old.replace("<", "<="), "/overlay/planted.py")
    assert codes is not None and plant(functions_in("/overlay/"), codes)
    assert module.f(1) and module.C.g(1) and module.C().h == [True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A = 1\n", "A = 2\n"),
        ("class C:\n    a = 1\n", "class C:\n    a = 2\n"),
        ("def f(a=1): ...\n", "def f(a=2): ...\n"),
    ],
)
def test_what_runs_at_import_is_not_planted_in_functions(old: str, new: str) -> None:
    assert changed_codes(old, new, "m.py") is None


# Who judges


def reach() -> Reach:
    found = Reach()
    for test in (
        RecordedTest(f"{OWN}::slow", 2.0, False),
        RecordedTest(f"{OWN}::fast", 0.1, False),
        RecordedTest("tests/scenarios/test_s.py::quick", 0.01, False),
        RecordedTest("tests/scenarios/test_s.py::process", 0.01, True),
    ):
        found.tests[test.id] = test
        found.lines[QUORUM, 3].add(test.id)
    found.functions[QUORUM, "covers"] = {f"{OWN}::fast"}
    return found


def test_a_modules_own_tests_come_first_then_the_fastest() -> None:
    assert mirror_of(QUORUM) == "tests/bookie/protocol/test_quorum"
    names = [one.partition("::")[2] for one in chosen(mutant(), reach(), seconds=20)]
    assert names == ["fast", "slow", "quick", "process"]


def test_other_files_take_turns() -> None:
    found = Reach()
    for name, seconds in (("a::1", 0.1), ("a::2", 0.1), ("b::1", 0.5), ("c::1", 0.3)):
        found.tests[name] = RecordedTest(name, seconds, False)
        found.lines[QUORUM, 3].add(name)
    assert chosen(mutant(), found, seconds=20) == ["a::1", "c::1", "b::1", "a::2"]


def test_a_packages_own_tests_come_before_others_for_half_of_the_time() -> None:
    found, near = Reach(), "tests/bookie/protocol/test_near.py"
    for name, seconds in (("a::1", 0.1), *((f"{near}::{number}", 1.0) for number in range(4))):
        found.tests[name] = RecordedTest(name, seconds, False)
        found.lines[QUORUM, 3].add(name)
    order = chosen(mutant(), found, seconds=4)
    assert order == [f"{near}::0", f"{near}::1", "a::1", f"{near}::2"]


def test_tests_are_taken_until_their_time_is_spent_and_one_always() -> None:
    assert len(chosen(mutant(), reach(), seconds=2.15)) == 3
    assert chosen(mutant(), reach(), seconds=0.01) == [f"{OWN}::fast"]


def test_a_line_that_nobody_runs_is_judged_by_the_modules_own_tests_too() -> None:
    names = [f"{OWN}::fast", f"{OWN}::slow"]
    assert chosen(mutant(line=99), reach(), seconds=9) == names
    assert chosen(mutant(line=99, function=""), reach(), seconds=9) == names
    other = Mutant("m", "bookie/src/bookie/ids.py", "", 1, (1,), "number", "", "", NONE)
    assert chosen(other, reach(), seconds=9) == []
    neighbour = Mutant("m", QUORUM.replace("quorum", "facts"), "", 1, (1,), "number", "", "", NONE)
    assert chosen(neighbour, reach(), seconds=9) == names


def test_a_changed_source_is_looked_up_by_function_too() -> None:
    found = reach()
    found.lines.clear()
    found.lines[QUORUM, 3].add(f"{OWN}::slow")
    found.changed.add(QUORUM)
    assert len(chosen(mutant(), found, seconds=9)) == 2


def test_a_record_is_of_the_text_that_its_test_file_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation_map, "BUILD", tmp_path)
    one = RecordedTest(f"{OWN}::fast", 0.1, False)
    assert mutation_map.stale([OWN]) == [OWN]
    mutation_map.keep(OWN, [one], {QUORUM: {18: [one.id]}}, {QUORUM: {1: []}})
    assert mutation_map.stale([OWN]) == []
    found = mutation_map.read([QUORUM])
    assert found.tests == {one.id: one} and found.lines == {(QUORUM, 18): {one.id}}
    assert found.functions == {(QUORUM, "write_set_positions"): {one.id}}
    assert found.at_import == {(QUORUM, 1)} and not found.changed


def sampled(names: str = "abc", **of: int) -> dict[str, list[Mutant]]:
    many = {name: [mutant(line, f"{name}{line}") for line in range(50)] for name in names}
    return sample(many | {"none": []}, **of)


def test_a_sample_is_the_seeds_and_has_one_of_each_module_at_least() -> None:
    taken = sampled(size=20, seed=1)
    assert taken == sampled(size=20, seed=1) != sampled(size=20, seed=2)
    assert sum(map(len, taken.values())) == 20 and [*taken] == ["a", "b", "c"]
    assert [len(found) for found in sampled(size=1, seed=1).values()] == [1, 1, 1]
    assert [len(found) for found in sampled(size=1000, seed=1).values()] == [50, 50, 50]


def test_a_module_more_takes_places_of_a_sample_and_exchanges_none() -> None:
    before, after = sampled("ab", size=20, seed=1), sampled("abc", size=20, seed=1)
    assert all(set(after[name]) < set(before[name]) for name in ("a", "b"))


# What is known from an earlier run


def judge(verdict: Verdict = Verdict.KILLED, by: str = f"{OWN}::fast") -> Outcome:
    return Outcome(verdict, by, 1.0)


def kept(folder: Path, **digests: str) -> Kept:
    found = Kept(folder / "verdicts.jsonl", lambda file: digests.get(Path(file).stem, "same"))
    found.read()
    return found


TASK = Task(mutant(), (f"{OWN}::fast", "tests/scenarios/test_s.py::quick"))


def test_a_verdict_holds_in_the_next_run_half_a_line_beside_it_or_not(tmp_path: Path) -> None:
    kept(tmp_path).keep(TASK, judge())
    with (tmp_path / "verdicts.jsonl").open("a") as file:
        file.write('{"mutant"')
    assert kept(tmp_path).of(TASK) == judge()
    assert kept(tmp_path).of(Task(replace(mutant(), original="other"), TASK.tests)) is None


def test_what_was_noticed_is_judged_again_when_the_file_of_its_test_changes(tmp_path: Path) -> None:
    kept(tmp_path).keep(TASK, judge())
    assert kept(tmp_path, test_s="other").of(TASK) == judge()
    assert kept(tmp_path, test_quorum="other").of(TASK) is None


def test_a_survivor_is_judged_again_when_any_of_its_tests_changes(tmp_path: Path) -> None:
    kept(tmp_path).keep(TASK, judge(Verdict.SURVIVED, ""))
    assert kept(tmp_path).of(TASK) == judge(Verdict.SURVIVED, "")
    assert kept(tmp_path, test_s="other").of(TASK) is None
    assert kept(tmp_path).of(Task(mutant(), TASK.tests[:1])) is None


def test_a_report_so_far_is_of_the_last_verdicts_and_of_no_others(tmp_path: Path) -> None:
    kept(tmp_path).keep(TASK, judge(Verdict.SURVIVED, ""))
    kept(tmp_path).keep(TASK, judge())
    later = kept(tmp_path, test_quorum="other")
    assert later.of(TASK) is None and later.last_of(TASK) == judge()
    assert later.last_of(Task(replace(mutant(), original="other"), TASK.tests)) is None
    assert row("m", so_far([None, judge()]), equivalent=0).mutants == 1


def test_another_machine_goes_on_with_the_verdicts_that_were_written_and_hold(
    tmp_path: Path,
) -> None:
    first, written = kept(tmp_path), tmp_path / "written.jsonl"
    other = Task(replace(mutant(), original="other"), TASK.tests)
    first.keep(TASK, judge())
    first.keep(other, judge())
    first.write(written, [TASK])
    second = kept(tmp_path / "machine")
    second.read(written)
    assert (second.of(TASK), second.of(other)) == (judge(), None)


def test_what_a_quick_run_leaves_out_is_not_kept(tmp_path: Path) -> None:
    kept(tmp_path).keep(TASK, judge(Verdict.ELSEWHERE, ""))
    assert kept(tmp_path).of(TASK) is None


def test_a_package_is_judged_in_one_session_but_for_what_is_known() -> None:
    tasks = {"bookie.boot.a": [TASK] * 2, "bookie.boot.b": [TASK], "bookie.ids": [TASK]}
    known = {("bookie.boot.a", 0): judge(), ("bookie.ids", 0): judge()}
    work = Work(tasks, {}, known=known)
    assert work.packages() == {"bookie.boot": [("bookie.boot.a", 1), ("bookie.boot.b", 0)]}


# What is said


def outcomes() -> list[Outcome | None]:
    verdicts = (Verdict.KILLED, Verdict.TIMEOUT, Verdict.SURVIVED, Verdict.UNREACHED)
    return [*(Outcome(verdict, "t", 1.5) for verdict in verdicts), None]


def test_what_was_not_judged_counts_as_a_survivor_and_equivalents_do_not_count() -> None:
    one = row("bookie.protocol.quorum", outcomes(), equivalent=2)
    assert (one.mutants, one.killed, one.timeout, one.equivalent, one.survived) == (7, 1, 1, 2, 3)
    assert one.share == 2 / 5 and one.seconds == 6.0
    assert row("m", [], equivalent=0).share == 1.0


def test_rows_are_added_by_package() -> None:
    rows = [row(f"bookie.{name}", outcomes(), equivalent=0) for name in ("boot.a", "boot.b", "ids")]
    assert [(one.name, one.mutants) for one in by_package(rows)] == [
        ("bookie.boot", 10),
        ("bookie.ids", 5),
    ]
    assert added("total", rows).mutants == 15


def test_figures_name_each_survivor_and_what_it_changes() -> None:
    survived = survivors([mutant()] * 5, outcomes())
    assert [verdict for _, verdict in survived] == ["survived", "unreached", "not judged"]
    content = figures(
        [row("bookie.protocol.quorum", outcomes(), equivalent=0)], survived, {"seed": 7}
    )
    assert content["seed"] == 7 and content["total"]["survived"] == 3
    assert content["survivors"][0]["where"] == f"{QUORUM}:3"
    assert told(*survived[0]) == f"{QUORUM}:3 covers (swap_op, survived)\n    - a\n    + b"


def test_an_equivalent_is_known_by_module_function_and_diff() -> None:
    listed = equivalents.read(equivalents.entry(mutant(), reason="The same."))
    assert listed == {mutant().key: "The same."}
    found = {"bookie.protocol.quorum": [mutant()]}
    assert not equivalents.stale(listed, found)
    assert equivalents.stale(listed, {"bookie.protocol.quorum": []}) == [mutant().key]
    assert not equivalents.stale(listed, {"bookie.other": []})


@pytest.mark.parametrize("times, reason", [(1, ""), (2, "The same.")])
def test_a_list_without_reasons_or_with_one_entry_twice_is_refused(times: int, reason: str) -> None:
    with pytest.raises(equivalents.EquivalentError):
        equivalents.read(equivalents.entry(mutant(), reason=reason) * times)


def test_no_entry_of_the_committed_list_is_stale() -> None:
    listed = equivalents.read(equivalents.PATH.read_text(encoding="utf-8"))
    functions: dict[str, set[str]] = defaultdict(set)
    for module, function, _ in listed:
        functions[module].add(function)
    found = {
        module: mutants_of(module, file, (ROOT / file).read_text(), functions=functions[name])
        for name in functions
        for module, file in (modules_of(name, root=ROOT) or {name: ""}).items()
        if file
    }
    gone = [key for key in listed if key[0] not in found]
    assert equivalents.stale(listed, found) + gone == []


# A child for each mutant


def test_a_child_says_its_verdict_and_the_test_that_failed() -> None:
    def work(say: object) -> None:
        assert callable(say)
        say("tests/a.py::b")
        say(Verdict.KILLED)

    outcome = forked(work, seconds={})
    assert (outcome.verdict, outcome.by) == (Verdict.KILLED, "tests/a.py::b")


def test_a_child_that_dies_in_a_test_is_killed_by_it_and_before_any_it_judged_nothing() -> None:
    def die(say: object) -> None:
        assert callable(say)
        say("tests/a.py::b")
        raise SystemExit

    assert forked(die, seconds={}).by == "tests/a.py::b"
    assert forked(lambda say: None, seconds={}).verdict is Verdict.ELSEWHERE


def test_a_child_that_says_nothing_for_too_long_is_ended() -> None:
    import threading

    outcome = forked(lambda say: threading.Event().wait(), seconds={}, first_seconds=0.01)
    assert outcome.verdict in (Verdict.TIMEOUT, Verdict.ELSEWHERE)
