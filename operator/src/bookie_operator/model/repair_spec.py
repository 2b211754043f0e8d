"""Repairs of a bookie that came back, and who decides that it may use a replaced disk."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from bookie_operator.model.base import LongText, Resource
from bookie_operator.model.pod_options import PodResources
from bookie_operator.model.quantity import Quantity, Size


class FixPolicy(StrEnum):
    """Who decides that a bookie may use a replaced disk."""

    AUTO = "Auto"
    APPROVE = "Approve"
    NEVER = "Never"


class RepairEngine(StrEnum):
    AUTO = "auto"
    INLINE = "inline"
    SPARK_LOCAL = "spark-local"
    SPARK_KUBERNETES = "spark-kubernetes"


class CookieFix(Resource):
    """What happens when a bookie comes back with a replaced or wiped disk."""

    policy: FixPolicy = FixPolicy.AUTO
    """`Auto`: the operator lets a bookie use a replaced disk when the loss budget allows it;
    `Approve`: a person must approve with a BookieTask; `Never`: the bookie refuses to boot."""
    window_seconds: Annotated[int, Field(ge=0, le=7 * 86400)] = 600
    """With policy Auto, a person must approve if disks of more than one bookie changed within this
    many seconds."""


class Repair(Resource):
    """How the jobs run that repair and audit."""

    engine: RepairEngine = RepairEngine.AUTO
    """What does the work of a repair. `inline`: one process; `spark-local`: Spark in the job's pod;
    `spark-kubernetes`: Spark with executor pods; `auto` chooses by the number of ledgers and
    entries."""
    image: LongText = "bookie-operator/repair:0.2.0"
    """Image, with Java, for repairs, audits, other jobs and the embedded ZooKeeper."""
    executors: Annotated[int, Field(ge=1, le=64)] = 2
    """Number of executor pods with engine spark-kubernetes."""
    executor_cpu: Quantity = "100m"
    """CPU that each executor pod requests; it has no CPU limit."""
    executor_memory: Size = "512Mi"
    """Heap of each executor's JVM, `spark.executor.memory`."""
    executor_memory_overhead: Size = "384Mi"
    """Memory for each executor's Python processes, outside of the heap:
    `spark.executor.memoryOverhead`. The pod requests both together, and may use both."""
    resources: PodResources = PodResources(requests={"cpu": "100m", "memory": "1Gi"})
    """CPU and memory of a job's own pod, which is Spark's driver."""
    start_deadline_seconds: Annotated[float, Field(ge=1, le=86400)] = 180.0
    """A job whose pod has not started after this many seconds, for example because its image cannot
    be pulled, counts as failed."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """After this many failed attempts, the condition RepairStalled is set; slow retries
    continue."""
    backoff_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 30.0
    """Seconds to wait after the first failed attempt; the wait doubles after each further one."""
    backoff_max_seconds: Annotated[float, Field(ge=0.1, le=86400)] = 900.0
    """Longest wait between two attempts, in seconds; `backoffSeconds` applies if it is larger."""
    deadline_seconds: Annotated[float, Field(ge=1, le=7 * 86400)] = 3600.0
    """A repair or audit that runs longer than this many seconds is stopped and counts as failed."""
