"""Who may call what on the control plane: what docs/security.md says, cell by cell."""

import re
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path

import pytest
from bookie.server.admin_roles import ASKED_BY, MAY, refused_by_role, refused_word
from bookie.tls.principals import Principal, Role

PAGE = Path(__file__).parents[3] / "docs/security.md"
OWN = Principal("space", "prod", Role.BOOKIE, "bookie-0")


def cells() -> Iterator[tuple[str, Role, str]]:
    """Of each row its words, one of its roles, and what the page says of both."""
    table = PAGE.read_text(encoding="utf-8").partition("On the control plane:")[2].split("\n\n")[1]
    head, _rule, *rows = ([cell.strip() for cell in line.split("|")] for line in table.splitlines())
    for row in rows:
        yield from (
            (row[1], Role(role), said) for role, said in zip(head[2:-1], row[2:-1], strict=True)
        )


CELLS = list(cells())


def may_call(method: str, caller: Principal, *, by_person: bool) -> bool:
    def refused() -> str:
        ASKED_BY.set(caller)
        return refused_by_role(method, caller, OWN) or refused_word(by_person=by_person)

    return not copy_context().run(refused)


def methods_of(words: str) -> list[str]:
    return [word for word in re.findall(r"\w+", words) if word in MAY]


@pytest.mark.parametrize(("words", "role", "said"), CELLS)
def test_each_role_may_call_what_the_page_says_and_nothing_else(
    words: str, role: Role, said: str
) -> None:
    for method in methods_of(words):
        for name in ("bookie-0", "bookie-1"):
            caller = OWN.peer(role, name)
            is_let_in = may_call(method, caller, by_person="by a person's word" in words)
            assert is_let_in is (said == "yes" or (said == "of itself" and name == OWN.name))


def test_the_page_has_every_call_and_every_role_that_may_make_one() -> None:
    assert {method for words, _role, _said in CELLS for method in methods_of(words)} == set(MAY)
    roles = {role for _words, role, _said in CELLS}
    assert roles == set(Role) - {Role.ZOOKEEPER} >= {one for may in MAY.values() for one in may}


@pytest.mark.parametrize("method", sorted(MAY))
def test_nobody_of_another_fleet_or_without_one_may_call_anything(method: str) -> None:
    for role in Role:
        stranger = Principal("space", "other", role, "bookie-0")
        assert refused_by_role(method, stranger, OWN)
    assert refused_by_role(method, None, OWN)
    assert refused_by_role(method, OWN.peer(Role.OPERATOR, "operator"), None)
