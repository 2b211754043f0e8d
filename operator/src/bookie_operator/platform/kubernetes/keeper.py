"""Keeps objects as they are wanted: applies what changed at once, and the rest now and then.

Between two passes hardly anything changes, and an apply of ten objects each time would be most of
the operator's traffic; applying again after a while undoes what others did to them.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Final

from bookie_operator.platform.kubernetes.api import Api, Kind, Object

AGAIN_AFTER_S: Final = 120.0


class Keeper:
    """One cluster's applied objects, by kind and name."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._applied: dict[tuple[str, str], tuple[str, float]] = {}

    async def keep(self, wanted: Iterable[tuple[Kind, Object]]) -> None:
        now = asyncio.get_running_loop().time()
        for kind, body in wanted:
            key = (kind.name, str(body["metadata"]["name"]))
            text = json.dumps(body, sort_keys=True)
            known = self._applied.get(key)
            if known is not None and known[0] == text and now - known[1] < AGAIN_AFTER_S:
                continue
            await self._api.apply(kind, body)
            self._applied[key] = (text, now)
