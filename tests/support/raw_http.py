"""An HTTP answer as it is on the wire, for transcripts: status line, headers, body."""

import asyncio
import re
from typing import Final

from shell_record import RULE

VARYING: Final = (
    (r"^Date: .*", "Date: DATE"),
    (r"^Server: .*", "Server: SERVER"),
)
"""Headers that say when it was, and the versions of libraries."""


async def answer_to(port: int, path: str, *headers: str, method: str = "GET") -> str:
    """What the server on this port of 127.0.0.1 answers, behind the request's first line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    given = headers if any(one.startswith("Host:") for one in headers) else ("Host: x", *headers)
    lines = (f"{method} {path} HTTP/1.1", *given, "Connection: close", "", "")
    writer.write("\r\n".join(lines).encode())
    whole = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return shown(f"{method} {path} {' '.join(headers)}".rstrip(), whole)


def shown(request: str, whole: str) -> str:
    head, _, body = whole.partition("\r\n\r\n")
    head = head.replace("\r\n", "\n")
    for pattern, name in VARYING:
        head = re.sub(pattern, name, head, flags=re.MULTILINE)
    return f"{RULE}\n{request}\n{head}\n\n{body}"
