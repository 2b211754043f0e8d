"""The operator's rights: none lacks, and none is there that no call needs."""

from contextlib import suppress

import pytest
from bookie.errors import BookieError
from helm_charts import OPERATOR, render
from operators_life import SCENES, Scene, an_issuer, certificates, coming_and_going, jobs, people
from rights import Call, Right, is_allowed, rights_of

ACCOUNT = ("demo-bookie-operator", "ops")


def granted(*values: str) -> list[Right]:
    return rights_of(render(OPERATOR, *values), *ACCOUNT)


class Recorded:
    """An authorizer of these rights that notes what was asked."""

    def __init__(self, rights: list[Right]) -> None:
        self.rights = rights
        self.calls: set[Call] = set()
        self.refused: set[Call] = set()

    def __call__(self, call: Call) -> bool:
        self.calls.add(call)
        if not is_allowed(self.rights, call):
            self.refused.add(call)
        return call not in self.refused


async def lived(scenes: tuple[Scene, ...] = SCENES) -> Recorded:
    recorded = Recorded(granted())
    for scene in scenes:
        await scene(recorded)
    return recorded


async def test_the_operator_is_refused_nothing_and_each_of_its_rights_is_needed() -> None:
    """Each right alone is taken away: a call of the whole life is then refused."""
    life = await lived()
    assert len(life.rights) > 70 and life.refused == set()
    for right in life.rights:
        rest = [one for one in life.rights if one != right]
        assert not all(is_allowed(rest, call) for call in life.calls), f"nothing needs {right}"


async def test_of_cert_manager_it_has_what_an_issuer_takes_and_no_more() -> None:
    usual = granted()
    recorded = Recorded(granted("--set=rbac.certManager=true"))
    await an_issuer(recorded)
    more = [one for one in recorded.rights if one not in usual]
    assert len(more) == 7 and recorded.refused == set()
    for right in more:
        rest = [one for one in recorded.rights if one != right]
        assert not all(is_allowed(rest, call) for call in recorded.calls), f"nothing needs {right}"


@pytest.mark.parametrize(
    ("scene", "resource", "verb"),
    [
        (coming_and_going, "roles", "delete"),
        (coming_and_going, "roles", "create"),
        (coming_and_going, "pods", "create"),
        (coming_and_going, "persistentvolumeclaims", "patch"),
        (jobs, "jobs", "create"),
        (people, "bookietasks/status", "update"),
        (certificates, "secrets", "patch"),
    ],
)
async def test_a_call_whose_right_is_taken_away_is_refused(
    scene: Scene, resource: str, verb: str
) -> None:
    rest = [one for one in granted() if (one.resource, one.verb) != (resource, verb)]
    recorded = Recorded(rest)
    with suppress(AssertionError, BookieError):  # the scene goes no further
        await scene(recorded)
    assert (resource, verb) in {(call.resource, call.verb) for call in recorded.refused}


async def test_in_named_namespaces_the_same_rights_are_enough_and_hold_there_alone() -> None:
    rights = granted("--set=watchNamespaces={fleet}")
    everywhere = {one.resource for one in rights if not one.namespace}
    assert everywhere == {"nodes", "storageclasses", "csidrivers"}
    recorded = Recorded(rights)
    for scene in SCENES[:-1]:  # the process itself watches what it is told to
        await scene(recorded)
    assert recorded.refused == set()


@pytest.mark.parametrize("values", [("--set=rbac.nodes=false", "--set=rbac.storage=false")])
async def test_without_rights_to_the_whole_cluster_the_operator_goes_on(
    values: tuple[str, ...],
) -> None:
    recorded = Recorded(granted("--set=watchNamespaces={fleet}", *values))
    await jobs(recorded)
    kinds = {call.resource for call in recorded.refused}
    assert kinds <= {"nodes", "storageclasses", "csidrivers", "pods"}
