"""Planted bugs that outlive what caused them: it has passed, and what failed then stays so."""

from typing import Final

from mutant import Mutant, Patch, planted

BOOKIE: Final = "bookie/src/bookie/"
OPERATOR: Final = "operator/src/bookie_operator/"
T: Final = "tests/bookie/"
P: Final = "tests/bookie_operator/"
REREPLICATION: Final = T + "repair/jobs/test_rereplication_job.py::"
LASTS: Final = ("a hindrance that has passed still counts",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a member that showed a corrupt copy is dropped and not replaced",
        stands_for=LASTS,
        file=BOOKIE + "protocol/writeback.py",
        old="        effects = self._repair_ensemble()\n        self._check()\n"
        "        return effects\n\n    def _fail",
        new="        return []\n\n    def _fail",
        tests=(
            T + "client/test_client_recovery.py::"
            "test_a_corrupt_copy_that_is_seen_during_a_write_back_does_not_stop_the_recovery",
        ),
    ),
    planted(
        "who reads a log goes on behind a ledger that closed while it was read",
        stands_for=("a reader forgets what was acknowledged",),
        file=BOOKIE + "client/log_reading.py",
        old="        if not is_whole:\n",
        new="        if not reader.is_closed:\n",
        tests=(
            T + "client/test_log_races.py::"
            "test_who_reads_a_ledger_that_closes_meanwhile_leaves_no_gap_before_the_next",
        ),
    ),
    planted(
        "room in a ledger that is closed meanwhile is room in the log",
        stands_for=LASTS,
        file=BOOKIE + "client/log.py",
        old="while self._lost is None and (self._switching or writer is not self._writer):",
        new="while self._lost is None and writer is None:",
        tests=(
            T + "client/test_log_races.py::"
            "test_append_many_that_waited_for_room_goes_into_the_next_ledger",
        ),
    ),
    planted(
        "an explicit LAC counts as told whoever took it",
        stands_for=LASTS,
        file=BOOKIE + "client/writer.py",
        old="said.count(Status.OK) >= metadata.ack_quorum",
        new="said.count(Status.OK) >= 0",
        tests=(T + "client/test_writer.py::test_a_lac_that_reached_no_member_is_told_again",),
    ),
    planted(
        "changed files that could not be read count as read",
        stands_for=LASTS,
        file=BOOKIE + "tls/renewed_files.py",
        old="            return False\n",
        new="            return True\n",
        tests=(
            T + "tls/test_credentials.py::"
            "test_a_renewal_that_could_not_be_read_for_a_moment_is_used_afterwards",
            T + "server/test_users_file.py::"
            "test_a_file_that_could_not_be_read_for_a_moment_counts_afterwards",
        ),
    ),
    planted(
        "a checkpoint's write counts before it has happened",
        stands_for=LASTS,
        file=BOOKIE + "repair/jobs/resume.py",
        old="            await rewrite(self._store, self.name, lambda _found: raw, bytes)\n"
        "            self._written = additions\n",
        new="            self._written = additions\n"
        "            await rewrite(self._store, self.name, lambda _found: raw, bytes)\n",
        tests=(
            T + "repair/jobs/test_resume.py::"
            "test_a_write_that_the_end_of_the_work_cuts_off_is_made_up_for",
        ),
    ),
    planted(
        "a task whose job was refused once is told that its job is gone",
        stands_for=LASTS,
        file=OPERATOR + "plan/tasks.py",
        old="    if job is None and task.status.target == _next_job(pass_, task, kind):\n",
        new="    if job is None and pass_.spec.paused:\n",
        tests=(P + "test_reconcile.py::test_a_task_whose_job_is_refused_once_gets_it_later",),
    ),
    planted(
        "a task that has failed is carried out all the same",
        stands_for=("what has failed is done all the same",),
        file=OPERATOR + "plan/tasks.py",
        old="    return pass_.without_tasks(failed), failed\n",
        new="    return pass_, failed\n",
        tests=(P + "plan/test_tasks.py::test_nothing_is_done_for_a_task_that_has_failed",),
    ),
    planted(
        "jobs of an earlier cluster of the name are taken over",
        stands_for=("A1 another cluster's bookie answers",),
        file=OPERATOR + "platform/kubernetes/job_view.py",
        old="[one for one in listed_jobs if is_of(one, self._cluster.uid)]",
        new="list(listed_jobs)",
        tests=(
            P + "platform/test_kubernetes_jobs.py::"
            "test_a_job_of_an_earlier_cluster_of_the_name_is_none_of_this_one",
        ),
    ),
    planted(
        "who slept beyond its lease acknowledges what it took before",
        stands_for=("A2 an older process answers",),
        file=BOOKIE + "server/operations.py",
        old='        if self.state.look_at_lease():\n            then(Status.OK, found, "")\n',
        new='        if self.state.phase.serves:\n            then(Status.OK, found, "")\n',
        tests=(
            T + "server/test_slept.py::"
            "test_an_add_is_not_acknowledged_by_who_slept_beyond_its_lease",
        ),
    ),
    planted(
        "a re-replication clears a mark over copies that an earlier run could not sync",
        stands_for=("limbo cleared before copies are synced",),
        file=BOOKIE + "repair/jobs/rereplication_job.py",
        old="{i: ours.intersection(members(one.value)) for i, one in found.items()}",
        new="{one.ledger_id: ours.intersection(one.touched) for one in outcomes}",
        tests=(REREPLICATION + "test_a_mark_stays_while_unsynced_copies_could_be_lost",),
    ),
    planted(
        "a re-replication replaces who came back while others were replaced",
        stands_for=("a writer that could go on is cut off",),
        file=BOOKIE + "repair/jobs/rereplication_job.py",
        old="        if self._replaced in infos:\n",
        new="        if self._replaced in infos and self._request.force:\n",
        tests=(
            REREPLICATION
            + "test_a_bookie_that_came_back_while_others_were_replaced_keeps_its_writers",
        ),
    ),
    planted(
        "a drain that was cancelled still ends what is written",
        stands_for=("a writer that could go on is cut off",),
        file=BOOKIE + "repair/jobs/evacuation.py",
        old="            if refusal := await self._ask():\n"
        "                return refusal\n"
        "            await asyncio.gather(*map(end",
        new="            await asyncio.gather(*map(end",
        tests=(
            T
            + "repair/jobs/test_drain_job.py::test_a_cancel_leaves_what_is_written_to_its_writers",
        ),
    ),
    planted(
        "a job is seen without the report that it has just left",
        stands_for=LASTS,
        file=OPERATOR + "platform/kubernetes/job_view.py",
        old="        listed_jobs = await self._api.list(JOB, self._chosen)\n",
        new="",
        also=(
            Patch(
                OPERATOR + "platform/kubernetes/job_view.py",
                "        pods = await self._api.list(POD, self._chosen)\n",
                "        pods = await self._api.list(POD, self._chosen)\n"
                "        listed_jobs = await self._api.list(JOB, self._chosen)\n",
            ),
        ),
        tests=(
            P + "platform/test_kubernetes_jobs.py::"
            "test_a_job_that_ends_while_jobs_are_listed_has_its_report",
        ),
    ),
    planted(
        "what a bookie said counts until the clock has caught up",
        stands_for=LASTS,
        file=OPERATOR + "observe.py",
        old="if not timedelta() <= now - last.at <= REMEMBERED_MAX:",
        new="if now - last.at > REMEMBERED_MAX:",
        tests=(P + "test_reconcile.py::test_a_clock_that_goes_back_keeps_no_old_answer",),
    ),
)
