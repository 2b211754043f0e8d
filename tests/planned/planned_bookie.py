"""A simulated bookie as a platform keeps it: run as its template says, on volumes that have names.

What a kubelet does is here: it runs what it was told to run as soon as every volume is there, and
remembers how processes ended. It does not belong to the operator, and outlives it.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from bookie.boot.cookie_fix import FixPolicy
from bookie.ids import BookieId
from bookie.testing.simulation.bookies import SimBookie, settings_of
from bookie.testing.simulation.process import Process as SimProcess
from bookie_operator.observed import Bookie, Exit, Process, Volume
from bookie_operator.plan.actions import BookieTemplate
from bookie_operator.platform.processes import exit_reason

Clock = Callable[[], datetime]


class HostedBookie(SimBookie):
    """See the module. Until it is told what to run, nothing runs."""

    def __init__(self, *args: Any, clock: Clock, keeps_claims: bool, **kwargs: Any) -> None:
        """`keeps_claims`: another disk comes under the volume that was, as an ephemeral one does;
        else the volume goes with the disk."""
        super().__init__(*args, **kwargs)
        self._clock = clock
        self._keeps_claims = keeps_claims
        self.template: BookieTemplate | None = None
        self.hired_at: datetime | None = None
        """When it was first told what to run, or again after it had left."""
        self.volumes: dict[str, Volume] = {}
        self.retained: dict[str, Volume] = {}
        """Volumes of a bookie that has left, for the day it comes back."""
        self.is_lost = False
        """Its machine is gone for good, with its disks: it never starts again."""
        self.is_held = False
        """Its process or its volumes are being changed: nothing is begun."""
        self.is_stopping = False
        self._disks: tuple[str, ...] = ()
        self._revision = ""
        self.started_at: datetime | None = None
        self._exit: Exit | None = None
        self._volumes_made = 0

    # What is there
    def seen(self) -> Bookie | None:
        """As the platform shows it; None: there is nothing of it."""
        if self.template is None and not self.volumes:
            return None
        return Bookie(BookieId(self.name), dict(self.volumes), self._process())

    def _process(self) -> Process | None:
        if self.template is None:
            return None
        ports = self.bookie.ports if self.is_up and self.bookie is not None else {}
        return Process(
            instance=self.instance,
            running=self.is_up,
            revision=self._revision if self.is_up else self.template.revision,
            restarts=max(0, self.lives - 1),
            started_at=self.started_at,
            last_exit=self._exit,
            control=f"{self.name}:{ports['admin']}" if "admin" in ports else None,
        )

    @property
    def instance(self) -> str:
        """The process of now; empty = none."""
        return f"{self.name}/{self.lives}" if self.is_up else ""

    @property
    def is_whole(self) -> bool:
        """Who is told to run nothing owes nothing to anybody."""
        return self.template is None or super().is_whole

    # Volumes
    def make_volume(self, disk: str, size: str) -> bool:
        """An empty one, or the one that was left behind; False: it has one."""
        if disk in self.volumes:
            return False
        kept = self.retained.pop(disk, None)
        if kept is None:
            self._volumes_made += 1
            kept = Volume(disk, f"{self.name}-{disk}-{self._volumes_made}", size)
        self.volumes[disk] = kept
        self.start()
        return True

    def delete_volume(self, disk: str) -> None:
        """With what lies on it; while it is down. One that was never run has nothing on it."""
        self.volumes.pop(disk, None)
        self.retained.pop(disk, None)
        if disk in self._disks:
            super().wipe(self._disks.index(disk))

    def wipe(self, place: int) -> None:
        """See SimBookie."""
        super().wipe(place)
        if not self._keeps_claims and self._disks:
            self.volumes.pop(self._disks[place], None)

    # Lives
    def told(self, template: BookieTemplate) -> None:
        """It is to run so from its next start on, and runs."""
        if self.template is None:
            self.hired_at = self._clock()
        self.template, self._disks = template, tuple(disk.name for disk in template.disks)
        self.start()

    def start(self) -> None:
        """As soon as it may: see the module."""
        template = self.template
        if self.is_up or self.is_held or not self.is_wanted or template is None:
            return
        if self.is_lost:
            return
        if any(disk not in self.volumes for disk in self._disks):
            return
        self._settle(template)
        self._revision, self.started_at = template.revision, self._clock()
        super().start()

    def _settle(self, template: BookieTemplate) -> None:
        options = template.options
        self.mode = "journal" if options.journal_write_data else options.ack.value
        scale = replace(self._scale, flush_s=options.flush_interval_seconds)
        self.settings, boot = settings_of(self.name, scale, self.mode, host=self._host)
        policy = FixPolicy.APPROVE if template.asks_before_cookie_fix else FixPolicy.NEVER
        uids = tuple(self.volumes[disk].uid for disk in self._disks)
        self.boot_settings = replace(boot, volume_uids=uids, policy=policy)

    def _gone(self, process: SimProcess) -> None:
        super()._gone(process)
        now, code = self._clock(), self.exit_code
        lasted = now - self.started_at if self.started_at is not None else None
        self._exit = Exit(now, code, exit_reason(code), lasted, is_planned=self.is_stopping)

    def change_mode(self, mode: str) -> None:
        """Settings are the operator's."""
