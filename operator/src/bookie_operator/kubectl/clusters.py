"""Which cluster a command means, and its object as the model reads it."""

from typing import TypeVar

from pydantic import ValidationError

from bookie_operator.errors import ManifestError
from bookie_operator.kubectl.client import CLUSTERS, Kubectl, KubectlError, NotFoundError, Tree
from bookie_operator.model.base import Resource
from bookie_operator.model.cluster import BookieCluster

Model = TypeVar("Model", bound=Resource)


def read(model: type[Model], tree: Tree) -> Model:
    """The object through its model; fields that this version does not know are left out."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        name = (tree.get("metadata") or {}).get("name", "")
        raise KubectlError(
            f"{model.__name__} {name} cannot be read: {where}: found {first['input']!r}, "
            f"{first['msg'].replace('Input', 'it')}; expected what this version knows: install "
            "the plugin in the operator's version"
        ) from error


def find(kubectl: Kubectl, name: str | None) -> Tree:
    """The cluster of that name, or the only one in the namespace."""
    if name is not None:
        return _named(kubectl, name)
    found = kubectl.get_all(CLUSTERS)
    if not found:
        raise KubectlError(
            f"found no BookieCluster in namespace {kubectl.namespace()}, expected one: "
            "choose a namespace with -n, or kubectl apply a BookieCluster"
        )
    if len(found) > 1:
        raise ManifestError(
            f"found {_names(found)} in namespace {kubectl.namespace()}, expected the name of one "
            "of them on the command line"
        )
    return found[0]


def _named(kubectl: Kubectl, name: str) -> Tree:
    try:
        return kubectl.get(CLUSTERS, name)
    except NotFoundError as error:
        there = _names(kubectl.get_all(CLUSTERS)) or "none"
        raise KubectlError(
            f"found no BookieCluster {name} in namespace {kubectl.namespace()}; there: {there}"
        ) from error


def the_cluster(kubectl: Kubectl, name: str | None) -> BookieCluster:
    return read(BookieCluster, find(kubectl, name))


def the_bookie(cluster: BookieCluster, bookie: str) -> str:
    """`bookie`, when the cluster has one of that name."""
    known = [*cluster.spec.bookie_ids, *(one.id for one in cluster.status.bookies)]
    if bookie not in known:
        names = ", ".join(dict.fromkeys(known))
        raise ManifestError(
            f"found {bookie}, expected a bookie of cluster {cluster.metadata.name}: {names}"
        )
    return bookie


def _names(found: list[Tree]) -> str:
    return ", ".join(sorted(tree["metadata"]["name"] for tree in found))
