"""An API server in memory: the Api of one namespace, with what tests do to it.

Server-side apply as the operator uses it: every manager owns the fields it applied last, what it
stops applying goes unless another owns it, force takes what others own. Lists are atomic. Objects
of status kinds keep spec and status apart. `fake_controllers` adds what controllers do.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

from bookie.errors import UnavailableError
from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.platform.kubernetes.api import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    JOB,
    MANAGER,
    POD,
    ROLE,
    SERVICE,
    STATEFUL_SET,
    TASK,
    Kind,
    NotServedError,
    Object,
    RefusedError,
    typed,
)
from operator_scenes import T0
from rights import Call, Judge

Answer = TypeVar("Answer")
Tree = TypeVar("Tree")
Path = tuple[str, ...]
Fields = dict[Path, Any]

CREATOR: Final = "creator"
"""Owner of what was created, not applied: as the user agent is on a real server."""
PROTECTED: Final = "kubernetes.io/pvc-protection"
_COUNTED: Final = frozenset({CLUSTER, TASK, STATEFUL_SET, JOB, BUDGET})
"""Kinds whose generation counts changes of their spec."""
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "generation")


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LABEL: Final = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


class Killed(BaseException):
    """The operator's process ends here; nothing may catch it."""


class FakeApi:
    """One namespace; cluster-wide kinds lie beside it."""

    def __init__(self, namespace: str = "fleet", *, numbers: Iterator[int] | None = None) -> None:
        """`numbers`: of uids and versions, shared by the namespaces of one server."""
        self._namespace = namespace
        self._objects: dict[tuple[Kind, str], Object] = {}
        self._owners: dict[tuple[Kind, str], dict[str, set[Path]]] = {}
        self._forbidden: set[tuple[str, Kind]] = set()
        self._refused: dict[tuple[str, Kind], str] = {}
        self._numbers = numbers if numbers is not None else itertools.count(1)
        self._node_ports: dict[tuple[str, int], int] = {}
        """By Service and port, what was given."""
        self.now = T0
        self.is_away = False
        self.logs: dict[str, str] = {}
        """By pod: what its container has written so far; one that is not here has not started."""
        self.not_in_schema: set[str] = set()
        """Fields of a status that the CRD of this server does not have."""
        self.calls: list[tuple[str, str, str]] = []
        """(verb, kind, name) of every call that was let in."""
        self.made: list[tuple[str, str]] = []
        """(kind, name) of every object that came to be."""
        self.authorizer: Judge = lambda call: True
        """Whether who asks has the right to, by its rules."""
        self.watch: Callable[[Kind, Object, bool], None] = lambda kind, thing, is_gone: None
        """Is told of every change of an object (is_gone: of its end), as a watch does."""
        self.after_call: Callable[[], None] = lambda: None
        """Runs when a call took effect, before its answer is there."""

    @property
    def namespace(self) -> str:
        return self._namespace

    # The Api

    async def get(self, kind: Kind, name: str) -> Object | None:
        self._admit("get", kind, name)
        if "/" in name:
            raise NotServedError(f"get {kind.name} {name}: could not find the requested resource")
        found = self._objects.get((kind, name))
        return self._answer(copied(found))

    async def list(
        self,
        kind: Kind,
        labels: Mapping[str, str] | None = None,
        *,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        self._admit("list", kind, "")
        wanted = (labels or {}).items()
        return self._answer(
            [
                copied(one)
                for one in self.all(kind)
                if wanted <= (one["metadata"].get("labels") or {}).items()
                and all(_field(one, path) == value for path, value in (fields or {}).items())
            ]
        )

    async def create(self, kind: Kind, body: Object) -> Object | None:
        self._admit("create", kind, body["metadata"]["name"])
        _check_labels(kind, body)
        key = (kind, str(body["metadata"]["name"]))
        if key in self._objects:
            return self._answer(None)
        tree = self._make(kind, key[1])
        fields = _fields(_without_status(body))
        _put(tree, fields)
        self._owners[key] = {CREATOR: set(fields)}
        self.watch(kind, copied(tree), False)
        return self._answer(copied(tree))

    async def apply(self, kind: Kind, body: Object, *, manager: str = MANAGER) -> Object:
        name = str(body["metadata"]["name"])
        self._admit("patch", kind, name)
        known = self._objects.get((kind, name))
        _meet(body["metadata"], known)
        _check_labels(kind, body)
        if known is None:
            self._authorize("create", kind, name)
        for group, resource, granted in _granted(kind, body):
            # Nobody may give more than they have.
            self._authorize_call(Call(self._namespace, group, resource, granted))
        if known is None:
            self._make(kind, name)
        self._merge((kind, name), _fields(_without_status(body)), manager)
        return self._answer(copied(self._objects[(kind, name)]))

    async def replace_status(
        self, kind: Kind, name: str, status: Object, *, version: str
    ) -> Object:
        self._admit("update", kind, name, part="status")
        known = self._objects.get((kind, name))
        if known is None:
            raise RefusedError(f"replace the status of {kind.name} {name}: not found")
        _meet({"resourceVersion": version}, known)
        before = copied(known)
        kept = {key: one for key, one in status.items() if key not in self.not_in_schema}
        known["status"] = copied(kept)
        self._touch(kind, known, before)
        return self._answer(copied(known))

    async def delete(self, kind: Kind, thing: Object, *, is_forced: bool = False) -> bool:
        name = str(thing["metadata"]["name"])
        self._admit("delete", kind, name)
        known = self._objects.get((kind, name))
        if known is None:
            return self._answer(False)
        for key in ("uid", "resourceVersion"):
            if thing["metadata"][key] != known["metadata"][key]:
                raise PreconditionError(f"delete {kind.name} {name}: the {key} is another one")
        if is_forced and not known["metadata"].get("finalizers"):
            self.remove(kind, name)
        else:
            self.begin_deletion(kind, name)
        return self._answer(True)

    async def log(self, pod: str, *, container: str, lines: int, size: int) -> str:
        self._admit("log", POD, pod, part="log")
        if self.find(POD, pod) is None or pod not in self.logs:
            raise RefusedError(f"read the log of Pod {pod}: container {container} is waiting")
        tail = self.logs[pod].splitlines(keepends=True)[-lines:]
        return self._answer("".join(tail).encode()[:size].decode(errors="replace"))

    # What tests and controllers do

    def forbid(self, verb: str, kind: Kind) -> None:
        self._forbidden.add((verb, kind))

    def refuse(self, verb: str, kind: Kind, why: str) -> None:
        """As a quota or a policy does: who asks may ask, and is denied this."""
        self._refused[(verb, kind)] = why

    def allow_all(self) -> None:
        self._forbidden.clear()
        self._refused.clear()

    def all(self, kind: Kind) -> Sequence[Object]:
        names = sorted(name for known, name in self._objects if known == kind)
        return [self._objects[(kind, name)] for name in names]

    def all_but(self, *without: Kind) -> Sequence[Object]:
        """Every object that is there, but for these kinds."""
        return [tree for (kind, _), tree in self._objects.items() if kind not in without]

    def find(self, kind: Kind, name: str) -> Object | None:
        """The live object itself."""
        return self._objects.get((kind, name))

    def the(self, kind: Kind, name: str) -> Object:
        return self._objects[(kind, name)]

    def put(self, kind: Kind, body: Object) -> Object:
        """An object that somebody else made, status included."""
        name = str(body["metadata"]["name"])
        tree = self._make(kind, name)
        _put(tree, _fields(body, with_identity=True))
        self._owners[(kind, name)] = {CREATOR: set(_fields(body))}
        self.watch(kind, copied(tree), False)
        return tree

    def edit(self, kind: Kind, name: str, change: Callable[[Object], None]) -> None:
        """As a person or a controller does: straight into the object."""
        tree = self.the(kind, name)
        before = copied(tree)
        change(tree)
        self._touch(kind, tree, before)

    def set_status(self, kind: Kind, name: str, **status: Any) -> None:
        self.edit(kind, name, lambda tree: tree.setdefault("status", {}).update(status))

    def begin_deletion(self, kind: Kind, name: str) -> None:
        tree = self.the(kind, name)
        metadata = tree["metadata"]
        waits_for_node = kind == POD and bool(tree["spec"].get("nodeName"))
        if not waits_for_node and not metadata.get("finalizers"):
            self.remove(kind, name)
        elif "deletionTimestamp" not in metadata:
            grace = tree["spec"].get("terminationGracePeriodSeconds", 30) if waits_for_node else 0
            end = stamp(self.now + timedelta(seconds=grace))
            self.edit(kind, name, lambda one: one["metadata"].update(deletionTimestamp=end))

    def remove(self, kind: Kind, name: str) -> None:
        """It is gone, whatever held it."""
        gone = self._objects.pop((kind, name))
        self.watch(kind, copied(gone), True)
        self._owners.pop((kind, name), None)

    # How it is done

    def _authorize(self, verb: str, kind: Kind, name: str, part: str = "") -> None:
        resource = f"{kind.plural}/{part}" if part else kind.plural
        place = self._namespace if kind.namespaced else ""
        asked = "get" if verb == "log" else verb
        self._authorize_call(Call(place, kind.group, resource, asked, name))

    def _authorize_call(self, call: Call) -> None:
        if not self.authorizer(call):
            raise ForbiddenError(
                f'{call.verb} {call.resource}: User "operator" cannot {call.verb} resource '
                f'"{call.resource}"'
            )

    def _admit(self, verb: str, kind: Kind, name: str, *, part: str = "") -> None:
        if self.is_away:
            raise UnavailableError("the API server does not answer: away")
        self._authorize(verb, kind, name, part)
        if (verb, kind) in self._forbidden:
            raise ForbiddenError(
                f'{verb} {kind.plural}: User "operator" cannot {verb} resource "{kind.plural}"'
            )
        self.calls.append((verb, kind.name, name))
        if (verb, kind) in self._refused:
            raise RefusedError(f"{verb} {kind.name} {name}: {self._refused[(verb, kind)]}")

    def _answer(self, answer: Answer) -> Answer:
        self.after_call()
        return answer

    def _make(self, kind: Kind, name: str) -> Object:
        if not _NAME.fullmatch(name):
            raise RefusedError(f"{kind.name} {name}: metadata.name: Invalid value")
        number = next(self._numbers)
        self.made.append((kind.name, name))
        metadata: Object = {
            "name": name,
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "creationTimestamp": stamp(self.now),
        }
        if kind.namespaced:
            metadata["namespace"] = self._namespace
        if kind in _COUNTED:
            metadata["generation"] = 1
        if kind == CLAIM:
            metadata["finalizers"] = [PROTECTED]
        tree = typed(kind, {"metadata": metadata})
        self._objects[(kind, name)] = tree
        self._owners[(kind, name)] = {}
        return tree

    def _merge(self, key: tuple[Kind, str], fields: Fields, manager: str) -> None:
        kind, _name = key
        tree, owners = self._objects[key], self._owners[key]
        before = copied(tree)
        held_by_others = {path for m, paths in owners.items() if m != manager for path in paths}
        dropped = owners.get(manager, set()) - set(fields) - held_by_others
        for path in dropped:
            _remove(tree, path)
        changed = {path for path, value in fields.items() if _value(before, path) != value}
        for paths in owners.values():  # force
            paths -= changed
        _put(tree, fields)
        owners[manager] = set(fields)
        _check(kind, before, tree)
        if kind == SERVICE:
            self._give_node_ports(tree)
        self._touch(kind, tree, before)

    def _give_node_ports(self, service: Object) -> None:
        """Of the types that have them; a port that has one keeps it."""
        if service["spec"].get("type") in ("NodePort", "LoadBalancer"):
            for port in service["spec"]["ports"]:
                of = (str(service["metadata"]["uid"]), int(port["port"]))
                port["nodePort"] = self._node_ports.setdefault(of, 30000 + len(self._node_ports))

    def _touch(self, kind: Kind, tree: Object, before: Object) -> None:
        if tree == before:
            return
        metadata = tree["metadata"]
        metadata["resourceVersion"] = str(next(self._numbers))
        if kind in _COUNTED and before.get("spec", tree.get("spec")) != tree.get("spec"):
            metadata["generation"] += 1
        self.watch(kind, copied(tree), False)


def _granted(kind: Kind, body: Object) -> Iterator[tuple[str, str, str]]:
    """Group, resource and verb of each right that a role gives."""
    for rule in body.get("rules", ()) if kind == ROLE else ():
        yield from itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])


def copied(tree: Tree) -> Tree:
    """Of JSON's kinds; several times as fast as any deep copy."""
    if isinstance(tree, dict):
        return cast(Tree, {key: copied(value) for key, value in tree.items()})
    return cast(Tree, [copied(value) for value in tree]) if isinstance(tree, list) else tree


def stamp(moment: datetime) -> str:
    """As Kubernetes writes it: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _field(tree: Object, path: str) -> Any:
    """Of a field selector: `involvedObject.name`."""
    found: Any = tree
    for step in path.split("."):
        found = (found or {}).get(step)
    return found


def _meet(planned: Object, known: Object | None) -> None:
    """A uid stands for one very object; a version says nothing of an object that is not there."""
    uid, version = planned.get("uid", ""), planned.get("resourceVersion", "")
    if uid and (known is None or known["metadata"]["uid"] != uid):
        raise PreconditionError(f"uid mismatch: {uid} is not the object that is there")
    if version and known is not None and known["metadata"]["resourceVersion"] != version:
        raise PreconditionError("the object has been modified")


def _without_status(body: Object) -> Object:
    return {key: value for key, value in body.items() if key != "status"}


def _fields(tree: Any, at: Path = (), *, with_identity: bool = False) -> Fields:
    """Leaves by path; a list is a leaf, and so is an empty mapping, and a selector."""
    if not isinstance(tree, dict) or (at and not tree) or at[-1:] == ("selector",):
        return {at: copied(tree)}
    found: Fields = {}
    for key, value in tree.items():
        is_identity = at == ("metadata",) and key in _IDENTITY
        is_type = at == () and key in ("apiVersion", "kind")
        if is_type or (is_identity and not with_identity):
            continue
        found |= _fields(value, (*at, key), with_identity=with_identity)
    return found


def _put(tree: Object, fields: Fields) -> None:
    for path, value in fields.items():
        node = tree
        for key in path[:-1]:
            inner = node.get(key)
            if not isinstance(inner, dict):
                inner = node[key] = {}
            node = inner
        if value != {} or not isinstance(node.get(path[-1]), dict):
            node[path[-1]] = copied(value)


def _remove(tree: Object, path: Path) -> None:
    nodes = list(_walk(tree, path))
    if len(nodes) < len(path):
        return
    nodes[-1].pop(path[-1], None)
    for node, key in zip(reversed(nodes[:-1]), reversed(path[:-1]), strict=True):
        if node[key] == {}:
            del node[key]


def _walk(tree: Object, path: Path) -> Iterator[Object]:
    """The mappings on the way to a leaf."""
    node: Any = tree
    for key in path:
        if not isinstance(node, dict):
            return
        yield node
        node = node.get(key)


def _value(tree: Object, path: Path) -> Any:
    nodes = list(_walk(tree, path))
    return nodes[-1].get(path[-1]) if len(nodes) == len(path) else None


def _check(kind: Kind, before: Object, after: Object) -> None:
    """What may not change in an object that is there."""
    path = ("spec", "resources", "requests", "storage")
    if kind == CLAIM and _value(before, path) is not None and _value(after, path) is None:
        _restore(before, after)
        raise RefusedError("spec.resources[storage]: Required value")
    if kind == CONFIG_MAP and before.get("immutable") and before["data"] != after.get("data"):
        _restore(before, after)
        raise RefusedError("data: Forbidden: field is immutable when `immutable` is set")


def _check_labels(kind: Kind, body: Object) -> None:
    for key, value in (body["metadata"].get("labels") or {}).items():
        if not _LABEL.fullmatch(value):
            name = body["metadata"]["name"]
            raise RefusedError(f"{kind.name} {name}: metadata.labels: Invalid value: {key}={value}")


def _restore(before: Object, after: Object) -> None:
    after.clear()
    after.update(before)
