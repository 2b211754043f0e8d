"""A control plane asked by its address: whoever answers first is meant from then on."""

from dataclasses import replace

import pytest
from bookie.cli.control_plane import control_plane
from bookie.errors import UnavailableError
from bookie.server.state import Phase
from bookie.wire.admin import bookie_admin_pb2 as pb
from server_lab import ServerLab

S = 5.0


def address(lab: ServerLab) -> str:
    assert lab.bookie is not None
    return f"127.0.0.1:{lab.bookie.ports['admin']}"


async def test_who_told_its_health_is_the_one_that_is_asked(server: ServerLab) -> None:
    async with control_plane(address(server)) as bookie:
        health = await bookie.health(timeout_s=S)
        assert server.bookie is not None and bookie.meant == server.bookie.control.identity()
        assert health.bookie_id == bookie.meant.bookie
        assert (await bookie.ask(pb.FlushRequest(), timeout_s=S)).log_bytes >= 0


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"cluster": "another"}, "not of another"),
        ({"bookie": "bookie-9"}, "not bookie-9"),
        ({"epoch": 2}, "boot 2 is known"),
    ],
)
async def test_a1_another_process_there_by_now_does_nothing(
    server: ServerLab, other: dict[str, str], words: str
) -> None:
    assert server.bookie is not None
    meant = replace(server.bookie.control.identity(), **other)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match=f"refused at .*{words}"):
        async with control_plane(address(server), meant=meant) as bookie:
            await bookie.ask(pb.DrainRequest(), timeout_s=S)
    assert server.bookie.state.phase is Phase.SERVING
