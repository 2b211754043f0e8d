"""The parts of a story's fleet that write down what they do, and a chance that is none."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bookie.protocol.status import Status
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.loop import OWNER
from bookie.testing.simulation.network import Network, Weather
from bookie.testing.simulation.transport import End
from bookie.wire.native import Op, envelope_header
from fleet_messages import HeardPort
from fleet_record import Record


class Steady(random.Random):
    """No chance: always the middle."""

    def random(self) -> float:
        return 0.5


@dataclass(slots=True)
class Instead:
    """What the next answers of one kind say instead; `status` None: they are lost."""

    op: Op
    status: Status | None
    times: int
    body: bytes


class FleetNetwork(Network):
    """One that writes down calls of the control plane too, and changes answers."""

    record: Record

    def __init__(self, rng: random.Random, weather: Weather) -> None:
        super().__init__(rng, weather)
        self.instead: dict[str, list[Instead]] = {}

    def carry(self, sender: End, message: bytes) -> None:
        op = message[4]
        who = sender.party.name
        due = [one for one in self.instead.get(who, ()) if one.op == op and one.times]
        if not sender.is_server or not due:
            super().carry(sender, message)
            return
        due[0].times -= 1
        if due[0].status is None:
            self.record.note(f"an answer of {who} is lost: {due[0].op.name}")
            self.loop.call_soon(sender.arrived, len(message))
            return
        request_id = parse_envelope(message).request_id
        head = envelope_header(due[0].op, due[0].status, request_id, len(due[0].body))
        sender.in_flight += len(head + due[0].body) - len(message)
        super().carry(sender, head + due[0].body)

    async def call(self, target: str, begin: Callable[[Any], Awaitable[Any]]) -> Any:
        caller = getattr(OWNER.get(), "name", "?")
        return await super().call(
            target, lambda port: begin(HeardPort(port, target, self.record.note, caller))
        )


class FleetBookie(SimBookie):
    """One that writes down what it does to its disks."""

    on_operation: Callable[[str], None]

    def _count(self, what: str) -> None:
        if self.is_up:
            self.on_operation(what)
        super()._count(what)
