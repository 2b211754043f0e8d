"""Keeps objects as they are wanted: writes what changed at once, and what others did to them.

Between two passes hardly anything changes, and an apply of ten objects each time would be most of
the operator's traffic. So it remembers what the server made of each one, and `noticed` compares
that with what a watch tells. Writing again after a while is for what no watch reported.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bookie.errors import BookieError

from bookie_operator.errors import PreconditionError
from bookie_operator.platform.kubernetes.api import CONFIG_MAP, Api, Kind, Object
from bookie_operator.platform.kubernetes.ownership import check_ours

AGAIN_AFTER_S: Final = 120.0
VERSIONS_MAX: Final = 8
"""Own writes of one object whose echoes a watch may still bring."""
Key = tuple[str, str]
"""Kind and name."""
Path = tuple[str, ...]


@dataclass(slots=True)
class _Kept:
    """One object: what was wanted, when it was written, and what the server made of it."""

    text: str
    """What was wanted, as JSON."""
    at: float
    """Loop time of the last write."""
    uid: str
    """Uid of the object that was written."""
    versions: deque[str]
    """Resource versions of our own writes that a watch may still report."""
    fields: Mapping[Path, Any]
    """Our fields as the server made them: what a watch shows is compared with these."""
    lost: str = ""
    """What somebody else did to it since; empty = nothing."""


async def apply_each(api: Api, kind: Kind, bodies: Iterable[Object]) -> dict[str, BookieError]:
    """Writes to objects that are there, each by its uid; what could not be written, by kind and
    name. One that is gone by now needs nothing."""
    failed: dict[str, BookieError] = {}
    for body in bodies:
        try:
            await api.apply(kind, body)
        except PreconditionError:
            continue
        except BookieError as error:
            failed[f"{kind.name} {body['metadata']['name']}"] = error
    return failed


class Keeper:
    """One cluster's objects, by kind and name."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._kept: dict[Key, _Kept] = {}
        """Objects as the operator wrote them, by kind and name."""
        self._restored: list[str] = []
        """Sentences about what was written again against other hands; emptied by `sentences`."""

    async def keep(self, wanted: Iterable[tuple[Kind, Object]]) -> None:
        """All of them; the first that could not be kept is raised when the others are."""
        for error in (await self.tried(wanted)).values():
            raise error

    async def tried(self, wanted: Iterable[tuple[Kind, Object]]) -> dict[str, BookieError]:
        """What could not be kept, by kind and name: none holds up another."""
        failed: dict[str, BookieError] = {}
        for kind, body in wanted:
            if self._is_as_wanted(kind, body):
                continue
            try:
                await self.write(kind, body)
            except BookieError as error:
                failed[" ".join(key_of(kind, body))] = error
        return failed

    def _is_as_wanted(self, kind: Kind, body: Object) -> bool:
        known = self._kept.get(key_of(kind, body))
        if known is None or known.lost or known.text != text_of(body):
            return False
        return asyncio.get_running_loop().time() - known.at < AGAIN_AFTER_S

    async def write(self, kind: Kind, body: Object) -> None:
        """Now, whatever is known of it."""
        key, text = key_of(kind, body), text_of(body)
        before = self._kept.get(key)
        lost = before.lost if before is not None else ""
        answer = await self._made(kind, body)  # a watch may tell of it before the answer is here
        versions = before.versions if before is not None else deque(maxlen=VERSIONS_MAX)
        versions.append(str(answer["metadata"].get("resourceVersion", "")))
        self._kept[key] = _Kept(
            text=text,
            at=asyncio.get_running_loop().time(),
            uid=str(answer["metadata"].get("uid", "")),
            versions=versions,
            fields={path: value_at(answer, path) for path in leaves(body)},
        )
        if lost:
            how = "made again" if lost == "deleted" else "put back as it was"
            self._restored.append(f"{' '.join(key)} was {lost} by somebody else: {how}")

    async def _made(self, kind: Kind, body: Object) -> Object:
        known = self._kept.get(key_of(kind, body))
        if known is not None and not known.lost and kind != CONFIG_MAP:
            with suppress(PreconditionError):  # it is another one by now
                return await self._api.apply(kind, named(body, known.uid))
        found = await self._api.get(kind, body["metadata"]["name"])
        if found is not None:
            check_ours(kind, found, body)
        if kind == CONFIG_MAP:  # settings never change: their name is their content's
            return found or await self._api.create(kind, body) or body
        uid = str(found["metadata"]["uid"]) if found is not None else ""
        return await self._api.apply(kind, named(body, uid))

    def remembered(self, kind: Kind, name: str) -> Object | None:
        """What was wanted of it last; None when this operator has not written it."""
        known = self._kept.get((kind.name, name))
        if known is None:
            return None
        wanted: Object = json.loads(known.text)
        return wanted

    def forget(self, kind: Kind, name: str) -> None:
        """It is not wanted any more."""
        self._kept.pop((kind.name, name), None)

    def noticed(self, kind: Kind, thing: Object, *, is_gone: bool) -> bool:
        """What a watch tells of an object; True = it is not as it was written here."""
        metadata = thing["metadata"]
        known = self._kept.get((kind.name, str(metadata["name"])))
        if known is None:
            return False
        is_same = metadata.get("uid") == known.uid
        if is_gone:
            known.lost = "deleted" if is_same else known.lost
        elif metadata.get("resourceVersion") not in known.versions:
            is_changed = any(value_at(thing, path) != was for path, was in known.fields.items())
            known.lost = "changed" if is_changed or not is_same else ""
        return bool(known.lost)

    def sentences(self) -> Sequence[str]:
        """What was brought back since this was last asked, in a sentence each."""
        restored, self._restored = self._restored, []
        return restored


def key_of(kind: Kind, body: Object) -> Key:
    return kind.name, str(body["metadata"]["name"])


def named(body: Object, uid: str) -> Object:
    """For that very object; empty = there is none yet."""
    return body | {"metadata": body["metadata"] | {"uid": uid}} if uid else body


def text_of(body: Object) -> str:
    return json.dumps(body, sort_keys=True)


def leaves(tree: Any, at: Path = ()) -> list[Path]:
    """Paths of all values in an object; a list counts as one value, and so does a selector."""
    if not isinstance(tree, dict) or not tree or at[-1:] == ("selector",):
        return [at]
    return [path for key, value in tree.items() for path in leaves(value, (*at, key))]


def value_at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
