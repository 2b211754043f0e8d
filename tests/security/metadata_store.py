"""Attacks on ZooKeeper (2181) with kazoo alone: connect, delete a ledger, rob its password."""

from collections.abc import Callable
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from strangers import Attacker

WAIT_S: Final = 4.0


def attempt(
    attacker: Attacker, hosts: str, work: Callable[[KazooClient], object]
) -> tuple[bool, str]:
    """Whether it was refused, and in which words."""
    secure = {}
    if attacker.folder is not None:
        secure = {
            "use_ssl": True,
            "verify_certs": False,  # the attacker does not care who it robs
            "certfile": str(attacker.folder / "tls.crt"),
            "keyfile": str(attacker.folder / "tls.key"),
        }
    client = KazooClient(hosts, timeout=WAIT_S, **secure)
    try:
        client.start(timeout=WAIT_S)
        found = work(client)
    except KazooTimeoutError:
        return True, "no session"
    except NoAuthError:
        return True, "NoAuth"
    except KazooException as error:
        return False, f"{type(error).__name__} {error}"
    finally:
        client.stop()
        client.close()
    return False, f"done: {found!s:.100}"


def ledger_znodes(client: KazooClient, root: str) -> list[str]:
    """Paths of all ledgers' metadata."""
    found, folders = [], [root]
    while folders:
        folder = folders.pop()
        for name in client.get_children(folder):
            path = f"{folder}/{name}"
            if name.startswith("L") and name[1:].isdecimal():
                found.append(path)
            elif name.isdecimal():
                folders.append(path)
    return found
