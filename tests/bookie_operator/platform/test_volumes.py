"""Volumes: identity in the claim, content in the folder, and never one taken for the other."""

import shutil
from pathlib import Path

import pytest
from bookie.ids import BookieId
from bookie_operator.errors import LocalError, PreconditionError
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.volumes import (
    create_volume,
    delete_volume,
    grow_volume,
    retain_volume,
    swap_volumes,
    volumes_of,
    wipe_volume,
)

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    folders = LocalFolders(tmp_path)
    folders.make()
    for bookie_id in (B0, B1):
        create_volume(folders, bookie_id, "ledger-0", size="1Gi")
        (folders.volume(bookie_id, "ledger-0") / "of").write_text(bookie_id)
    return folders


def uid(folders: LocalFolders, bookie_id: BookieId) -> str:
    return volumes_of(folders, bookie_id)["ledger-0"].uid


def test_creating_again_keeps_the_volume(folders: LocalFolders) -> None:
    before = uid(folders, B0)
    assert create_volume(folders, B0, "ledger-0", size="1Gi") == before
    assert (folders.volume(B0, "ledger-0") / "of").exists()


def test_a_deleted_volume_comes_back_empty_with_another_uid(folders: LocalFolders) -> None:
    before = uid(folders, B0)
    delete_volume(folders, B0, "ledger-0", uid=before)
    assert volumes_of(folders, B0) == {}
    assert create_volume(folders, B0, "ledger-0", size="1Gi") != before
    assert list(folders.volume(B0, "ledger-0").iterdir()) == []


def test_deleting_names_the_volume_it_means(folders: LocalFolders) -> None:
    with pytest.raises(PreconditionError, match="planned for other"):
        delete_volume(folders, B0, "ledger-0", uid="other")
    assert (folders.volume(B0, "ledger-0") / "of").exists()


def test_an_interrupted_deletion_leaves_no_old_content(folders: LocalFolders) -> None:
    folders.claim(B0, "ledger-0").unlink()  # as if killed before the folder was removed
    create_volume(folders, B0, "ledger-0", size="1Gi")
    assert list(folders.volume(B0, "ledger-0").iterdir()) == []


def test_a_deletion_that_is_cut_leaves_no_claim_to_half_of_a_volume(
    folders: LocalFolders, tmp_path: Path
) -> None:
    folder = folders.volume(B0, "ledger-0")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")  # which nothing here takes away
    with pytest.raises(OSError, match="symbolic link"):
        delete_volume(folders, B0, "ledger-0", uid=uid(folders, B0))
    assert not volumes_of(folders, B0)


def test_a_wiped_volume_keeps_its_uid(folders: LocalFolders) -> None:
    before = uid(folders, B0)
    wipe_volume(folders, B0, "ledger-0")
    assert uid(folders, B0) == before
    assert list(folders.volume(B0, "ledger-0").iterdir()) == []


def test_a_volume_of_which_no_folder_is_left_comes_back_empty(folders: LocalFolders) -> None:
    shutil.rmtree(folders.volumes)
    wipe_volume(folders, B0, "ledger-0")
    assert list(folders.volume(B0, "ledger-0").iterdir()) == []


def test_a_volume_left_behind_is_nobodys_until_it_is_taken_up_again(folders: LocalFolders) -> None:
    before = uid(folders, B0)
    retain_volume(folders, B0, "ledger-0")
    assert volumes_of(folders, B0) == {}
    assert create_volume(folders, B0, "ledger-0", size="1Gi") == before == uid(folders, B0)
    assert (folders.volume(B0, "ledger-0") / "of").exists()


def test_a_volume_grows_once(folders: LocalFolders) -> None:
    assert grow_volume(folders, B0, "ledger-0", size="2Gi")
    assert not grow_volume(folders, B0, "ledger-0", size="2Gi")
    assert volumes_of(folders, B0)["ledger-0"].size == "2Gi"


def test_swapped_volumes_exchange_contents_only(folders: LocalFolders) -> None:
    before = uid(folders, B0), uid(folders, B1)
    swap_volumes(folders, (B0, "ledger-0"), (B1, "ledger-0"))
    assert (uid(folders, B0), uid(folders, B1)) == before
    assert (folders.volume(B0, "ledger-0") / "of").read_text() == B1
    assert (folders.volume(B1, "ledger-0") / "of").read_text() == B0


def test_an_unknown_volume_is_named_with_the_known_ones(folders: LocalFolders) -> None:
    with pytest.raises(LocalError, match=r"no volume bookie-0\.x; there are bookie-0\.ledger-0"):
        wipe_volume(folders, B0, "x")
