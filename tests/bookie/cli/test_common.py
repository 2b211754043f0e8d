"""What a person is asked and answers, exit codes of errors, and the words that libraries keep."""

import io
import logging
import sys
from collections.abc import Callable

import pytest
from bookie.cli.common import ask, code_of, password_option, run
from bookie.cli.jobs import Answer, outcome
from bookie.errors import (
    BadRequestError,
    BookieError,
    BootRefusedError,
    CorruptError,
    FrameError,
    InconsistentError,
    MetadataConflictError,
    MetadataFormatError,
    NotEnoughBookiesError,
    NotReadyError,
    SettingsError,
    StorageError,
    UnavailableError,
    UndecidableError,
)
from bookie.exit_codes import Exit
from bookie.repair.reports.result import Document
from click import Command
from click.exceptions import Exit as Ended


def asked(monkeypatch: pytest.MonkeyPatch, typed: bytes | None, *, yes: bool = False) -> int:
    """How the program ends; 0 if it goes on. `typed` None: standard input is closed."""
    source = None if typed is None else io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", source)
    try:
        ask("Really?", yes=yes)
    except Ended as ended:
        return ended.exit_code
    return 0


@pytest.mark.parametrize(
    ("typed", "code"),
    [(b"y\n", 0), (b"Y", 0), (b" yes \n", 0), (b"YES\r\n", 0)]
    + [(typed, 1) for typed in (b"\n", b"n\n", b"no\n", b"yess\n", b"\xff\n", b"\ny\n")],
)
def test_only_a_clear_yes_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: bytes, code: int
) -> None:
    assert asked(monkeypatch, typed) == code
    words = "nothing was changed\n" if code else ""
    assert capsys.readouterr() == ("", f"Really? [y/N] {words}")


@pytest.mark.parametrize("typed", [b"", None])
def test_where_nobody_can_answer_the_option_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: bytes | None
) -> None:
    assert asked(monkeypatch, typed) == Exit.USAGE
    assert "\nerror: nobody answered: pass --yes" in capsys.readouterr().err
    assert asked(monkeypatch, typed, yes=True) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ((BadRequestError, SettingsError, FrameError), Exit.USAGE),
        ((UndecidableError, UnavailableError), Exit.UNDECIDED),
        ((BootRefusedError,), Exit.REFUSED),
        ((StorageError, CorruptError, InconsistentError, MetadataFormatError), Exit.ERROR),
        ((MetadataConflictError, NotEnoughBookiesError, NotReadyError), Exit.ERROR),
    ],
)
def test_an_error_ends_the_program_with_its_sentence_and_code(
    capsys: pytest.CaptureFixture[str], errors: tuple[type[BookieError], ...], code: Exit
) -> None:
    async def failing(error: BookieError) -> None:
        raise error

    for kind in errors:
        with pytest.raises(Ended) as ended:
            run(failing(kind("why")))
        assert ended.value.exit_code == code == code_of(kind("why"))
        assert capsys.readouterr() == ("", "error: why\n")


@pytest.mark.parametrize("password", [b"", b"right", "schlüssel".encode(), b"\xff\xfe"])
def test_a_password_is_any_bytes(password: bytes) -> None:
    """As Python gives the words of a command line: bytes that are no text are surrogates."""
    word = password.decode("utf-8", "surrogateescape")
    context = password_option(Command("read")).make_context("read", ["--password", word])
    assert context.params == {"password": password}


async def nothing() -> Document:
    return {}


@pytest.mark.parametrize(
    "begin", [lambda: run(nothing()), lambda: outcome("audit", nothing, Answer("json", None))]
)
def test_a_person_reads_our_warnings_and_not_those_of_libraries(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    begin: Callable[[], object],
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    before = logging.getLogger().level
    begin()
    for name in ("kazoo.client", "bookie.client", "bookie.boot.boot", "bookiekeeper"):
        logging.getLogger(name).info("a step")
        logging.getLogger(name).warning("%s retries", name)
    logging.getLogger().setLevel(before)
    assert capsys.readouterr() == ("", "warning: bookie.client retries\n")
