"""What the operator asks of the place where bookies run: Kubernetes, or processes and folders.

The planner cannot tell platforms apart. Reads are live; changes are idempotent and name what they
were planned for. A platform restarts dead bookies by itself (a kubelet, or the module `kubelet`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bookie.errors import BookieError
from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Bookie, Job, NamedSecret
from bookie_operator.plan.actions import (
    BookieTemplate,
    CertificateAction,
    DiskTemplate,
    Event,
    RemoveBookie,
    ReplaceBookie,
    StartJob,
)
from bookie_operator.tls_view import TlsView


class Platform(Protocol):
    """One cluster's place.

    UnavailableError = not now; PreconditionError = plan again; ForbiddenError = a permission lacks.
    """

    async def metadata_url(self, cluster: BookieCluster) -> str:
        """Address of the metadata store; starts an embedded one. UnavailableError if it is not
        up."""

    async def bookies(self) -> Mapping[BookieId, Bookie]:
        """Volumes and processes, live; `health` and `is_writable` are not the platform's to say."""

    async def kept_claims(self) -> Mapping[BookieId, Sequence[str]]:
        """Names of claims that were kept when their bookie left, by bookie, as the last call of
        `bookies` found them."""

    async def jobs(self) -> Sequence[Job]:
        """Repairs and audits that run or ran, with their reports."""

    async def tasks(self) -> Sequence[BookieTask]:
        """What people asked for, finished tasks included while they are kept."""

    async def certificates(
        self, cluster: BookieCluster, bookie_ids: Sequence[BookieId], deciding: Sequence[str] = ()
    ) -> TlsView:
        """Who should have a certificate, including these bookies, and what each has. `deciding`:
        names in tasks of people who decide about a loss."""

    async def secrets(self, cluster: BookieCluster) -> Sequence[NamedSecret]:
        """The Secrets that the spec names, and what is wrong with them."""

    @property
    def login(self) -> Path | None:
        """The file with the fleet's user of ZooKeeper's, as the last look at secrets found it;
        None: it has none."""

    @property
    def credentials(self) -> Path | None:
        """The folder with the operator's own credentials, as the last look at certificates found
        them; None: it has none."""

    async def create_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        """False = not now: the bookie's volumes are being changed."""

    async def start_bookie(self, template: BookieTemplate, *, keeps_settings: bool = False) -> bool:
        """Keep a bookie running as the template says, or as it was to run before
        (`keeps_settings`) where the platform knows that. False = it is kept running so already."""

    async def restart_bookie(
        self, template: BookieTemplate, *, instance: str, keeps_settings: bool = False
    ) -> bool:
        """Stop that very instance gracefully, then run the template, or what ran before
        (`keeps_settings`). False = under way already."""

    async def replace_volume(self, bookie_id: BookieId, disk: str, *, uid: str) -> bool:
        """Stop the bookie gracefully and delete that very volume. False = under way already."""

    async def replace_bookie(self, action: ReplaceBookie) -> bool:
        """Delete all volumes that the action names, and the bookie's pod by force where its node is
        lost. Where another process runs than was seen, nothing is done. Called until they are gone.
        False = under way already."""

    async def expand_volume(self, bookie_id: BookieId, disk: DiskTemplate) -> bool:
        """Ask for the size of `disk`. False = not now, or asked for already."""

    async def remove_bookie(self, action: RemoveBookie) -> bool:
        """Stop that very instance gracefully (empty = none runs) and run the bookie no more; its
        pod goes by force where its node is lost.

        Called until `bookies` does not list it: volumes that are kept are nobody's then, until
        `create_volume` takes them up again. False = under way.
        """

    async def start_job(self, job: StartJob) -> bool:
        """Create-only; False = a job of this name exists, or not now: the bookie whose disks it
        works on still stops."""

    async def stop_job(self, name: str) -> None: ...

    async def certify(self, action: CertificateAction) -> None:
        """Sign, give somebody other authorities to trust, or take a certificate away."""

    async def record(self, event: Event) -> None:
        """Tell people; an event with a `once` key at most once, ever."""

    async def publish(self, cluster: BookieCluster) -> None:
        """Replace the cluster's status."""

    async def settle(
        self, cluster: BookieCluster, status: ClusterStatus
    ) -> Mapping[str, BookieError]:
        """Bring the bookies' surroundings (services, disruption budget, accounts) to what the
        spec and the status just published say, and what bookies run from to what it was. What
        could not be, by its name."""

    async def publish_task(self, task: BookieTask) -> None:
        """Replace the task's status. PreconditionError if another task has its name by now."""

    async def delete_task(self, name: str, *, uid: str) -> None: ...

    async def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, at the latest after `timeout_s`."""
