"""Settles who may reach the pods of one cluster, and what these pods may do at the API server.

It makes NetworkPolicies while the spec wants them, and rights for Spark's drivers while a job may
be one, and deletes both when they are not wanted any more.
"""

from bookie.errors import BookieError

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.plan.actions import StartJob
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import NETWORK_POLICY, ROLE, ROLE_BINDING, Api
from bookie_operator.platform.kubernetes.jobs import may_be_driver, may_need_driver
from bookie_operator.platform.kubernetes.keeper import Keeper
from bookie_operator.platform.kubernetes.network_policies import network_policies
from bookie_operator.platform.kubernetes.optional_objects import OptionalObjects
from bookie_operator.platform.kubernetes.surroundings import (
    Wanted,
    accounts,
    driver_account,
    driver_rights,
)


class Access:
    """`operator_namespace`: where the operator's own pods are; empty = not known."""

    def __init__(self, api: Api, keeper: Keeper, *, operator_namespace: str) -> None:
        self._keeper = keeper
        self._policies = OptionalObjects(api, keeper, NETWORK_POLICY, names.NETWORK)
        self._rights = {
            kind: OptionalObjects(api, keeper, kind, names.JOBS) for kind in (ROLE_BINDING, ROLE)
        }
        """Objects with the rights of Spark's drivers; the binding is deleted before the role."""
        self._operator_namespace = operator_namespace

    async def settle(
        self, cluster: BookieCluster, *, in_use: frozenset[str]
    ) -> dict[str, BookieError]:
        """What could not be written or taken away, by kind and name.

        `in_use`: accounts whose tokens running jobs have. They keep their rights until these end.
        """
        policies = network_policies(cluster, operator_namespace=self._operator_namespace)
        failed = await self._policies.settle(policies, cluster)
        has_drivers = may_need_driver(cluster.spec)
        if has_drivers:
            failed |= await self._keeper.tried([driver_account(cluster)])
        for kind, objects in self._rights.items():
            wanted = [one for one in driver_rights(cluster) if has_drivers and one[0] == kind]
            failed |= await objects.settle(wanted, cluster, spared=in_use)
        return failed


def accounts_of(cluster: BookieCluster, job: StartJob) -> list[Wanted]:
    """What must be there before the job's pod can start, and do what it is for."""
    own = [driver_account(cluster), *driver_rights(cluster)] if may_be_driver(job) else []
    return accounts(cluster) + own
