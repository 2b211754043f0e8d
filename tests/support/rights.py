"""RBAC, as far as the chart's rules use it: what an account was granted, what a call needs."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource. `namespace`: where; empty = everywhere. `names`: of which objects;
    none = of all."""

    namespace: str
    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """What somebody asks of an API server. `resource` with its part: `pods/log`."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


Judge = Callable[[Call], bool]


def is_allowed(rights: Collection[Right], call: Call) -> bool:
    return any(covers(right, call) for right in rights)


def covers(right: Right, call: Call) -> bool:
    return (
        right.namespace in ("", call.namespace)
        and (right.group, right.resource, right.verb) == (call.group, call.resource, call.verb)
        and (not right.names or call.name in right.names)
    )


def rights_of(objects: Collection[Object], account: str, namespace: str) -> list[Right]:
    """What the bindings among these objects give to a service account."""
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
        for one in objects
        if one["kind"] in ("Role", "ClusterRole")
    }
    found: set[Right] = set()
    for binding in objects:
        subjects = binding.get("subjects") or ()
        own = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        if own not in subjects:
            continue
        where = binding["metadata"].get("namespace", "")
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        role = roles[(kind, where if kind == "Role" else "", name)]
        found |= set(_rights(role["rules"], where))
    return sorted(found)


def _rights(rules: Collection[Object], namespace: str) -> Iterator[Right]:
    for rule in rules:
        names = tuple(rule.get("resourceNames") or ())
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    assert "*" not in (group, resource, verb), rule
                    yield Right(namespace, group, resource, verb, names)
