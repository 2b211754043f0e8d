"""What this machine has of IPv6, and machines that have nothing else: network namespaces.

In one of them only ::1 can be reached. The other is like a pod of an IPv6-only cluster: an address
of its own, and beside it both loopbacks, which every pod has.
"""

import os
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pytest

POD_IP: Final = "fd00:10:244::9"
ONLY_LOOPBACK: Final = "ip link set lo up && ip -4 addr flush dev lo"
POD: Final = f"ip link set lo up && ip -6 addr add {POD_IP}/128 dev lo nodad"


def has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def inside(namespace: str, words: Sequence[str]) -> list[str]:
    """The command in a network namespace of its own, which ends with it."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = f'{namespace} && exec "$@"'
    return ["unshare", *user, "--net", "--", "sh", "-c", script, "sh", *words]


def obstacle() -> str | None:
    """Why no such namespace can be made here; None when it can."""
    if not has_ipv6():
        return "this machine has no IPv6 loopback"
    try:
        done = subprocess.run(inside(POD, ["true"]), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no network namespace can be made: {error}"
    return f"no network namespace can be made: {done.stderr.strip()}" if done.returncode else None


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
