"""Paths of BookKeeper's layout."""

from urllib.parse import unquote

import pytest
from bookie.errors import BadRequestError, MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.layout import (
    LAYOUT_TEXT,
    Paths,
    bookie_node,
    is_long_layout,
    ledger_id_of,
    ledger_path,
    mark_folder,
    marked_ledger,
    value_node,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "00/0000/L0000"),
        (1, "00/0000/L0001"),
        (12_345_678, "00/1234/L5678"),
        (2**31 - 2, "21/4748/L3646"),
        (2**31 - 1, "000/0000/0021/4748/L3647"),
        (2**31, "000/0000/0021/4748/L3648"),
        (2**32 + 7, "000/0000/0042/9496/L7303"),
        (2**63 - 1, "922/3372/0368/5477/L5807"),
    ],
)
def test_ledgers_lie_where_the_stock_client_looks(ledger_id: int, path: str) -> None:
    assert ledger_path(LedgerId(ledger_id)) == path
    assert ledger_id_of(path) == ledger_id


def test_the_long_layout_has_no_short_paths() -> None:
    assert ledger_path(LedgerId(1), long_layout=True) == "000/0000/0000/0000/L0001"


@given(st.integers(0, 2**63 - 1), st.booleans())
def test_every_path_leads_back_to_its_id(ledger_id: int, long_layout: bool) -> None:
    assert ledger_id_of(ledger_path(LedgerId(ledger_id), long_layout=long_layout)) == ledger_id


@pytest.mark.parametrize(
    "path",
    [
        "",
        "LAYOUT",
        "00/0000/X0001",
        "00/0000/L001",
        "00/0a00/L0001",
        "00/L0001",
        "0٣/0000/L0001",
        "922/3372/0368/5477/L5808",
        "999/9999/9999/9999/L9999",
    ],
)
def test_other_znodes_are_no_ledgers(path: str) -> None:
    assert ledger_id_of(path) is None


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_ids_out_of_range_have_no_path(ledger_id: int) -> None:
    with pytest.raises(BadRequestError):
        ledger_path(LedgerId(ledger_id))


def test_layouts_we_can_walk_are_told_from_others() -> None:
    assert LAYOUT_TEXT == "2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    assert not is_long_layout(LAYOUT_TEXT)
    assert is_long_layout(LAYOUT_TEXT.replace("meta.H", "meta.LongH"))
    for other in ("", "1\nhierarchical:1", LAYOUT_TEXT.replace("Hierarchical", "Flat")):
        with pytest.raises(MetadataFormatError, match="LAYOUT"):
            is_long_layout(other)


@pytest.mark.parametrize("root", ["", "/", "ledgers", "/ledgers/", "//x", "/a/../b"])
def test_a_root_is_a_plain_absolute_path(root: str) -> None:
    with pytest.raises(BadRequestError):
        Paths(root)


def test_our_own_znodes_are_no_children_of_the_cluster() -> None:
    assert Paths("/ledgers").own("id", "epochs") == "/bookie-operator/id/epochs"
    assert Paths("/a/ledgers").own("id", "values") == "/a/bookie-operator/id/values"


@pytest.mark.parametrize("bookie_id", ["", "readonly", "ReadOnly", "a/b", "a b", "..", "bücher"])
def test_ids_that_bookkeeper_would_refuse_are_refused(bookie_id: str) -> None:
    with pytest.raises(BadRequestError):
        bookie_node(BookieId(bookie_id))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_two_values_never_share_a_node(name: str) -> None:
    if name not in (".", ".."):
        assert unquote(value_node(name)) == name
        assert "/" not in value_node(name)


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "0000/0000/0000/0000/urL0000000000"),
        (0xCAFE, "0000/0000/0000/cafe/urL0000051966"),
        (2**31 - 1, "0000/0000/7fff/ffff/urL2147483647"),
        (2**40 + 5, "0000/0100/0000/0005/urL1099511627781"),
        (2**63 - 1, "7fff/ffff/ffff/ffff/urL9223372036854775807"),
    ],
)
def test_marks_lie_where_apaches_workers_look(ledger_id: int, path: str) -> None:
    paths = Paths("/ledgers")
    assert paths.mark(LedgerId(ledger_id)) == f"/ledgers/underreplication/ledgers/{path}"
    assert paths.mark_lock(LedgerId(ledger_id)).endswith(f"/locks/{path.rpartition('/')[2]}")


@given(st.integers(0, 2**63 - 1))
def test_every_folder_of_a_mark_leads_back_to_its_id(ledger_id: int) -> None:
    assert marked_ledger(mark_folder(LedgerId(ledger_id))) == ledger_id


@pytest.mark.parametrize(
    "folder",
    ["", "0000/0000/0000", "0000/0000/0000/000G", "0000/0000/0000/00AA", "8000/0000/0000/0000"],
)
def test_other_folders_are_of_no_ledgers_mark(folder: str) -> None:
    assert marked_ledger(folder) is None


def test_a_ledger_id_that_does_not_exist_has_no_mark() -> None:
    with pytest.raises(BadRequestError):
        mark_folder(LedgerId(-1))
