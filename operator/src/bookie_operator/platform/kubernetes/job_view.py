"""Jobs as they are now, each with how far it is and with why it does not start."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from bookie_operator.model.base import ObjectMeta
from bookie_operator.observed import Job
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import JOB, POD, Api
from bookie_operator.platform.kubernetes.jobs import (
    CONTAINER,
    job_of,
    missed_of_job,
    running_pod,
    token_account,
)
from bookie_operator.platform.kubernetes.ownership import is_of
from bookie_operator.platform.kubernetes.progress import JobLogs
from bookie_operator.platform.kubernetes.warnings import Warnings


class JobView:
    """Reads the jobs of one cluster: progress from the log of a job's pod, and why there is no pod
    from events."""

    def __init__(self, api: Api, cluster: ObjectMeta, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._cluster = cluster
        self._chosen = names.selector(cluster.name, names.JOBS)
        self._logs = JobLogs(api, container=CONTAINER, clock=clock)
        self._warnings = Warnings(api, clock)
        self.accounts: frozenset[str] = frozenset()
        """Service accounts whose tokens running jobs had at the last look."""

    async def jobs(self) -> Sequence[Job]:
        listed_jobs = await self._api.list(JOB, self._chosen)
        # Only then: a pod as it was before its job ended has no report yet, and nobody looks again.
        pods = await self._api.list(POD, self._chosen)
        jobs = [one for one in listed_jobs if is_of(one, self._cluster.uid)]
        found = [job for one in jobs if (job := job_of(one, pods)) is not None]
        self.accounts = frozenset(map(token_account, jobs)) - {""}
        running = {job.name for job in found if job.running}
        bodies = {n: one for one in jobs if (n := str(one["metadata"]["name"])) in running}
        at_work = {name: pod for name, one in bodies.items() if (pod := running_pod(one, pods))}
        missed = {name: by for name, one in bodies.items() if (by := missed_of_job(one, pods))}
        reached = await self._logs.progress(at_work)
        words = await self._warnings.about(missed)
        return [
            replace(
                job,
                progress=reached.get(job.name, ""),
                waiting=job.waiting or words.get(job.name, ""),
            )
            for job in found
        ]
