"""Which settings and StatefulSets of running bookies the operator restores if they change. Pure.

A pod that starts again needs both, long after the planner made them. Objects that are just being
created or deleted are not restored: a set without replicas is a fence, and a bookie without all its
volumes waits for them. If a bookie has an older revision, because it waits for its restart or is
held back, its objects are restored as this operator wrote them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.plan.actions import BookieTemplate, template_of
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CONFIG_MAP, STATEFUL_SET, Kind, Object
from bookie_operator.platform.kubernetes.bookies import bookie_objects, pod_settings, settings_of
from bookie_operator.platform.kubernetes.nodes import Node
from bookie_operator.platform.kubernetes.view import bookie_of, of_bookie, volume_of


@dataclass(frozen=True, slots=True)
class Seen:
    """Objects of bookies, as the pass saw them."""

    pods: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    sets: Sequence[Object] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """The readable settings of pods, by name."""


def kept_objects(
    cluster: BookieCluster,
    seen: Seen,
    *,
    metadata_url: str,
    remembered: Callable[[Kind, str], Object | None],
) -> list[tuple[Kind, Object]]:
    """Nothing while the cluster is paused: then people may change them by hand.

    `remembered`: how the operator wrote an object last, None = it did not. That is what is kept of
    a bookie whose settings are not the spec's.
    """
    if cluster.spec.paused or not metadata_url:
        return []
    found: list[tuple[Kind, Object]] = []
    for bookie_id in sorted({bookie_of(one) for one in (*seen.sets, *seen.pods)} - {""}):
        template = template_of(cluster.spec, BookieId(bookie_id))
        volumes = {
            volume.disk: volume
            for volume in map(volume_of, of_bookie(seen.claims, bookie_id))
            if not volume.is_terminating
        }
        is_whole = all(disk.name in volumes for disk in template.disks)
        if is_whole and _is_running(seen, template):
            text = pod_settings(template, volumes, metadata_url)
            found += bookie_objects(cluster, template, text, metadata_url=metadata_url)
        else:
            found += _as_written(of_bookie(seen.sets, bookie_id), remembered)
    return found


def _as_written(
    sets: Sequence[Object], remembered: Callable[[Kind, str], Object | None]
) -> list[tuple[Kind, Object]]:
    found = []
    for one in sets:
        if one["spec"].get("replicas") == 0 or not _lives(one):
            continue
        before = remembered(STATEFUL_SET, str(one["metadata"]["name"]))
        if before is None:
            continue
        settings = remembered(CONFIG_MAP, settings_of(before))
        found += [(CONFIG_MAP, settings)] if settings is not None else []
        found.append((STATEFUL_SET, before))
    return found


def _is_running(seen: Seen, template: BookieTemplate) -> bool:
    """A set as the template says, or, where somebody took it away, a pod of it."""
    sets = of_bookie(seen.sets, template.bookie_id)
    for one in sets:
        if one["spec"].get("replicas") == 0:
            return False
        return _is_current(one["spec"]["template"], template) and _lives(one)
    pods = [one for one in of_bookie(seen.pods, template.bookie_id) if _lives(one)]
    return any(_is_current(one, template) for one in pods)


def _is_current(pod: Object, template: BookieTemplate) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return bool(annotations.get(names.REVISION) == template.revision)


def _lives(thing: Object) -> bool:
    return "deletionTimestamp" not in thing["metadata"]
