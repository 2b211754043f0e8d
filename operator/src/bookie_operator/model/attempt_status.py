"""What the status says of every kind of job: which engine did the work, and how attempts went."""

from pydantic import AwareDatetime

from bookie_operator.model.base import Count, LongText, ShortText, StatusPart


class EngineUse(StatusPart):
    """Which engine did the work and why; with Spark, which application."""

    engine: ShortText = ""
    """`inline`, `spark-local` or `spark-kubernetes`; empty = not known yet."""
    engine_reason: LongText = ""
    """Why this engine, in words."""
    spark_app_id: ShortText = ""
    """Id of the Spark application; empty without Spark."""
    executors: Count = 0
    """Number of Spark executors; 0 without Spark."""


class AttemptStatus(StatusPart):
    """The attempts of one kind of job: the last finished one, and one that runs or failed since."""

    running: bool = False
    """Whether a job of this kind runs now."""
    attempt: Count = 0
    """Number of jobs started so far; the next job's name is made from it."""
    failures: Count = 0
    """How many jobs have failed in a row."""
    started_at: AwareDatetime | None = None
    """When the last completed job began; absent before the first."""
    finished_at: AwareDatetime | None = None
    """When the last completed job ended; absent before the first."""
    next_at: AwareDatetime | None = None
    """After a failure, the next job begins no earlier than this."""
    clean: bool | None = None
    """Whether the last finished job found nothing, or left nothing undone."""
    message: LongText = ""
    """The message of the last job, or why it failed."""
    progress: ShortText = ""
    """How far the running job is, as it reports."""

    @property
    def is_unsure(self) -> bool:
        """Whether the last finished job found no damage and is not known to have judged everything;
        only audits and scrubs tell the one from the other."""
        return False
