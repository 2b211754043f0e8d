"""Bookies of a story about the operator: each boots, asks, drains and ends as a real one does.

They are values, so that a story says when each step comes. What a bookie answers is made from what
happened to it, with figures that differ from one another: fields that are mixed up then show.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from bookie.ids import BookieId
from bookie.wire.admin.health import BootRecord, CookieFix, DiskHealth, Health, Phase
from bookie.wire.identity import Identity
from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Bookie, Exit, Process, Volume
from bookie_operator.plan.actions import BookieTemplate, DiskTemplate

GIB: Final = 1 << 30
BOOT: Final = (None, Phase.BOOTING, Phase.SERVING)
"""What a new process answers, look by look; None: nothing."""
HARMLESS: Final = ("CleanStop", "FirstBoot")
UNCLEAN: Final = "UncleanShutdown"


@dataclass
class StoryBookie:
    """One bookie; `now` is the story's clock."""

    id: BookieId
    now: Callable[[], datetime]
    instance_id: str = ""
    """Of the metadata store, once it has booted."""
    template: BookieTemplate | None = None
    """None: it is not to run."""
    volumes: dict[str, Volume] = field(default_factory=dict)
    made_volumes: int = 0
    is_running: bool = False
    processes: int = 0
    """Processes that it has had."""
    pods: int = 0
    """Pods that it has had."""
    epoch: int = 0
    reason: str = "FirstBoot"
    fenced: int = 0
    limbo: int = 0
    """Marks of the present boot; a story lowers them."""
    unchecked: int = 0
    booted_with: tuple[int, int] = (0, 0)
    """Limbo and unchecked as the boot record says them."""
    began_at: datetime | None = None
    coming: list[Phase | None] = field(default_factory=list)
    """What it answers at the next looks; the last one stays."""
    verdicts: dict[str, str] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    """Free bytes of disks that are not as all are."""
    fix: CookieFix | None = None
    marks_of_fix: tuple[int, int] = (0, 0)
    """Limbo and unchecked that the boot after the fix has."""
    last_exit: Exit | None = None
    restarts: int = 0
    served: dict[str, str] = field(default_factory=dict)
    """Uids of volumes by disk, as its last boot found them."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of its health that a story sets."""
    platform: dict[str, Any] = field(default_factory=dict)
    """Fields of its process that a story sets."""
    waiting: str = ""
    """Why it has no process."""
    is_deaf: bool = False
    """No process of it ever answers."""

    @property
    def phase(self) -> Phase | None:
        return self.coming[0] if self.coming else None

    @property
    def instance(self) -> str:
        return f"{self.id}.{self.processes}" if self.processes else ""

    def step(self) -> None:
        """A look later."""
        if len(self.coming) > 1:
            del self.coming[0]

    # What the platform does
    def make_volume(self, disk: DiskTemplate) -> None:
        self.made_volumes += 1
        # A task names volumes by the first six characters.
        uid = f"v{by_number(self.id)[1]}-{self.made_volumes:03}-{disk.name}"
        self.volumes[disk.name] = Volume(
            disk.name, uid, disk.size, storage_class=disk.storage_class
        )

    def begin_in_new_pod(self, reason: str = "", *, limbo: int = 0) -> None:
        """A pod says nothing of the processes in the one before."""
        self.pods += 1
        self.last_exit, self.restarts = None, 0
        self.begin(reason, limbo=limbo)

    def begin(self, reason: str = "", *, limbo: int = 0, unchecked: int = 0) -> None:
        """A process starts, and boots."""
        self.processes += 1
        self.epoch += 1
        self.is_running = True
        self.reason = reason or ("CleanStop" if self.epoch > 1 else "FirstBoot")
        self.limbo, self.unchecked = limbo, unchecked
        self.booted_with = (limbo, unchecked)
        self.began_at = self.now()
        self.served = {name: volume.uid for name, volume in self.volumes.items()}
        self.verdicts, self.facts = {}, {}
        self.coming = list(BOOT)

    def end(self, code: int | None, reason: str, *, is_planned: bool = False) -> None:
        """Its process ends."""
        lasted = self.now() - self.began_at if self.began_at is not None else None
        self.last_exit = Exit(self.now(), code, reason, lasted, is_planned)
        self.is_running = False
        self.coming = []

    def crash(self, *, limbo: int = 0, unchecked: int = 0, reason: str = UNCLEAN) -> None:
        """Killed, and started again by the platform."""
        self.end(-9, "killed by signal 9")
        self.restarts += 1
        self.begin(reason, limbo=limbo, unchecked=unchecked)

    def lose_disk(self, disk: str, *, limbo: int = 0, plan_id: str = "plan-1") -> None:
        """It comes back with an empty disk, and asks for a cookie fix."""
        self.begin("DiskReplaced")
        self.ask_for_fix({disk: "empty"}, limbo=limbo, plan_id=plan_id)

    def ask_for_fix(
        self, verdicts: Mapping[str, str], *, limbo: int = 0, plan_id: str = "plan-1"
    ) -> None:
        self.verdicts = dict(verdicts)
        self.marks_of_fix = (limbo, 0)
        found = ", ".join(f"{disk} is {verdict}" for disk, verdict in verdicts.items())
        self.fix = CookieFix(plan_id, (1,), found, "Approve")
        self.coming = [None, Phase.BOOTING, Phase.AWAITING_APPROVAL]

    def approve(self) -> None:
        self.limbo, self.unchecked = self.booted_with = self.marks_of_fix
        self.fix = None
        self.coming = [Phase.AWAITING_APPROVAL, Phase.MARKING, Phase.SERVING]

    # What is seen of it
    def seen(self) -> Bookie:
        return Bookie(
            self.id, volumes=dict(self.volumes), process=self._process(), waiting=self.waiting
        )

    def _process(self) -> Process | None:
        if self.template is None or not self.processes:
            return None
        one = Process(
            instance=self.instance,
            running=self.is_running,
            revision=self.template.revision,
            restarts=self.restarts,
            started_at=self.began_at,
            last_exit=self.last_exit,
            control=f"{self.id}:3183",
            pod=f"pod-{self.pods}-of-{self.id}",
            node=f"node-of-{self.id}",
            node_boot_id=f"boot-of-node-of-{self.id}",
            tls=self.template.tls.mode if self.template.tls else TlsMode.OFF,
        )
        return replace(one, **self.platform)

    def health(self) -> Health | None:
        """What its control plane answers; None: nothing."""
        if not self.is_running or self.phase is None or self.template is None or self.is_deaf:
            return None
        options, (limbo, unchecked) = self.template.options, self.booted_with
        has_booted = self.phase.is_booted
        boot = BootRecord(
            epoch=self.epoch,
            clean=self.reason in HARMLESS,
            reason=self.reason,
            started_at=self.began_at or self.now(),
            mode="journal" if options.journal_write_data else options.ack.value,
            ledgers_fenced=self.fenced,
            ledgers_in_limbo=limbo,
            ledgers_unchecked=unchecked,
        )
        told = Health(
            phase=self.phase,
            boot=boot if has_booted else None,
            disks=tuple(self._disks()),
            limbo_ledgers=self.limbo if has_booted else 0,
            unchecked_ledgers=self.unchecked if has_booted else 0,
            instance_id=self.instance_id,
            cookie_fix=self.fix if self.phase is Phase.AWAITING_APPROVAL else None,
            version="9.8.7",
            answered_by=Identity(self.instance_id, self.id, self.epoch),
        )
        return replace(told, **self.facts)

    def _disks(self) -> list[DiskHealth]:
        assert self.template is not None
        ledger, number = 0, by_number(self.id)[1]
        found = []
        for place, disk in enumerate(self.template.disks):
            is_journal = disk.role.value == "journal"
            found.append(
                DiskHealth(
                    role=disk.role.value,
                    index=0 if is_journal else ledger,
                    disk_id=f"disk-{number}-{place}",
                    verdict=self.verdicts.get(disk.name, "ok"),
                    volume_uid=self.served.get(disk.name, ""),
                    total_bytes=(10 + place) * GIB,
                    free_bytes=self.free.get(disk.name, (5 + place) * GIB),
                )
            )
            ledger += 0 if is_journal else 1
        return found
