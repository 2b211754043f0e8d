"""`kubectl bookie` on Tab: the lines that kubectl reads (its protocol is cobra's)."""

import pytest
from bookie_operator.kubectl import completion
from bookie_operator.kubectl.__main__ import plugin


def values(*words: str) -> list[str]:
    return [line.partition("\t")[0] for line in completion.completions(list(words))]


def test_without_a_word_every_command_is_offered() -> None:
    assert values("") == values() == sorted(plugin.commands)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("re",), [name for name in sorted(plugin.commands) if name.startswith("re")]),
        (("status", "--out"), ["--output"]),
        (("status", "--output", ""), ["tree", "wide", "json"]),
        (("-n", "bookies", "stat"), ["status"]),
    ],
)
def test_what_fits_is_offered(words: tuple[str, ...], offered: list[str]) -> None:
    assert values(*words) == offered


def test_kubectl_gets_help_behind_a_tab_and_a_directive_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-bookie", "pau"])
    completion.main()
    assert capsys.readouterr().out == "pause\tStop the operator from changing anything.\n:4\n"
