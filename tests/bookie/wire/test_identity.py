"""Who answers: the one judge of both wires, and how an identity travels on each."""

import pytest
from bookie.errors import FrameError
from bookie.wire.identity import EPOCH_MAX, IDENTITY_BYTES_MAX, Identity, refusal

MEANT = Identity("cluster", "bookie-0", 2)
FOUND = [
    (Identity("cluster", "bookie-0", 2), "", ""),
    (Identity("cluster", "bookie-0", 3), "", ""),
    (Identity("cluster", "bookie-1", 2), "this is bookie bookie-1, not bookie-0", "same"),
    (Identity("another", "bookie-0", 2), "of cluster another, not of cluster", "same"),
    (Identity("cluster", "bookie-0", 1), "boot 1 of bookie bookie-0, and its boot 2", "same"),
    (Identity("cluster", "bookie-0", 0), "not certain", ""),
    (Identity("", "bookie-0", 2), "not certain", ""),
]
TRAVELS = [MEANT, Identity("c" * 64, "10.0.0.1:3181", EPOCH_MAX), Identity("ü", "b ö/%", 1)]


@pytest.mark.parametrize(("found", "words", "booting"), FOUND)
def test_only_the_process_meant_or_a_later_one_of_it_counts(
    found: Identity, words: str, booting: str
) -> None:
    said = refusal(MEANT, found)
    assert (words in said) if words else not said
    assert refusal(MEANT, found, while_booting=True) == (said if booting else "")


def test_who_has_seen_no_boot_yet_means_any() -> None:
    assert not refusal(Identity("cluster", "bookie-0"), MEANT)


def test_without_a_cluster_nobody_is_meant_for_certain() -> None:
    assert refusal(Identity("", "bookie-0"), MEANT)
    assert not refusal(Identity("", "bookie-0"), MEANT, while_booting=True)


@pytest.mark.parametrize("cluster", ["cluster", "another", ""])
@pytest.mark.parametrize("bookie", ["bookie-0", "bookie-1"])
@pytest.mark.parametrize("epoch", range(4))
def test_only_a_later_boot_of_itself_outlives_it(cluster: str, bookie: str, epoch: int) -> None:
    found = Identity(cluster, bookie, epoch)
    assert found.is_outlived_by(MEANT) == (found == Identity("cluster", "bookie-0", 1))


@pytest.mark.parametrize("identity", TRAVELS)
def test_an_identity_travels_on_both_wires(identity: Identity) -> None:
    assert Identity.decode(memoryview(identity.encode())) == identity
    assert Identity.from_metadata(identity.to_metadata()) == identity
    assert all(value.isascii() for _key, value in identity.to_metadata())


@pytest.mark.parametrize(
    "body",
    [
        b"", b"bookie-0", b"7", b"null", b"\xff\xfe", b"{", b"[" * IDENTITY_BYTES_MAX, b"{}",
        b'{"cluster": "", "bookie": "b", "epoch": 1}', b'{"cluster": "c", "bookie": 3, "epoch": 1}',
        b'{"cluster": "c", "bookie": "b"}', b'{"cluster": "c", "bookie": "b", "epoch": true}',
        b'{"cluster": "c", "bookie": "b", "epoch": -1}',
        b'{"cluster": "c", "bookie": "b", "epoch": 9223372036854775808}',
        b'{"cluster": "c", "bookie": "b", "epoch": 1, "x": "' + b"x" * IDENTITY_BYTES_MAX + b'"}',
    ],
)  # fmt: skip
def test_a_body_that_names_nobody_is_no_identity(body: bytes) -> None:
    with pytest.raises(FrameError, match="HELLO"):
        Identity.decode(body)


def test_the_old_form_says_to_upgrade() -> None:
    with pytest.raises(FrameError, match="of an older version, upgrade it"):
        Identity.decode(b"bookie-0")


@pytest.mark.parametrize("epoch", ["-1", "x", "", "\u0663", "9" * 19, "9" * 5000])
def test_an_epoch_that_is_no_number_is_an_error(epoch: str) -> None:
    with pytest.raises(FrameError, match="boot-epoch"):
        Identity.from_metadata((("bookie-id", "b"), ("boot-epoch", epoch)))


def test_metadata_without_a_bookie_names_nobody() -> None:
    assert Identity.from_metadata((("cluster-id", "c"), ("boot-epoch", "x"))) is None
