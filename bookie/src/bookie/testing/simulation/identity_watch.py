"""Who answers is who was meant, heard on both wires.

A bookie says OK to the HELLO of a client only when it is that bookie of that cluster, and no older
process of it than the client knows of. So does its control plane with a call.
"""

from bookie.protocol.status import Status
from bookie.testing.simulation.history import History
from bookie.wire.identity import Identity
from bookie.wire.native import Op, parse_envelope


class IdentityWatch:
    """See the module."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._meant: dict[int, Identity] = {}
        """Connection -> whom its client means."""

    def heard(self, connection: int, message: bytes) -> None:
        """A bookie hears it."""
        if message[4] == Op.HELLO:
            self._meant[connection] = Identity.decode(parse_envelope(message).body)

    def said(self, connection: int, message: bytes) -> None:
        """A bookie says it."""
        envelope = parse_envelope(message)
        meant = self._meant.get(connection)
        if envelope.op is Op.HELLO and envelope.code == Status.OK and meant is not None:
            self.check(meant, Identity.decode(envelope.body), "greeted a client")

    def check(self, meant: Identity, own: Identity, what: str) -> None:
        """`own` did it to somebody who means `meant`."""
        is_other = meant.cluster and own.cluster and meant.cluster != own.cluster
        if own.bookie != meant.bookie or is_other or 0 < own.epoch < meant.epoch:
            self._history.violate(
                f"boot {own.epoch} of {own.bookie} of cluster {own.cluster} {what} that means boot "
                f"{meant.epoch} of {meant.bookie} of {meant.cluster}"
            )
