"""Prints what each bookie has registered, and where its name leads to from this pod, as JSON.

Run by a bookie's image: `python - zk://host:port/ledgers`.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Iterable

from bookie.metadata.opening import open_store


def addresses_of(hosts: Iterable[str]) -> list[str]:
    """By this pod's name servers, as every client looks names up."""
    found = {info[4][0] for host in hosts for info in socket.getaddrinfo(host, None)}
    return sorted(str(address) for address in found)


async def main(metadata: str) -> None:
    store = await open_store(metadata)
    try:
        registered = await store.bookies()
    finally:
        await store.close()
    told = {}
    for bookie, info in registered.items():
        hosts = sorted({endpoint.host for endpoint in info.endpoints})
        told[bookie] = {"hosts": hosts, "addresses": addresses_of(hosts), "rack": info.rack}
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
