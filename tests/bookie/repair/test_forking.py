"""A driver talks to bookies over gRPC, and then starts Spark's JVM by a fork."""

import subprocess
import sys

DRIVER = """
import asyncio, subprocess
from bookie.repair.look import grpc_control
import grpc

# Looked for there first: the child has closed its files by then and is not another program yet.
LONG_PATH = {"PATH": ":".join(["/nowhere"] * 500 + ["/bin", "/usr/bin"])}

def fork() -> int:
    # With a function to be called in the child, as PySpark does it: only then handlers run.
    return subprocess.run(["true"], preexec_fn=lambda: None, env=LONG_PATH).returncode

async def ask(channel: grpc.aio.Channel) -> None:
    call = channel.unary_unary("/nothing/here")
    while True:
        await asyncio.gather(*(call(b"") for _ in range(20)), return_exceptions=True)

async def main() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        asking = asyncio.create_task(ask(channel))
        print(*[code for _ in range(40) if (code := await asyncio.to_thread(fork))])
        asking.cancel()
    await server.stop(None)

asyncio.run(main())
"""


def test_programs_started_beside_grpc_do_not_die_of_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER], capture_output=True, text=True, check=True, timeout=120
    )
    assert ended.stdout.split() == []
