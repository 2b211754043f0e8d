"""Who answers is who was meant, heard on both wires.

A bookie says OK to the HELLO of a client only when it is that bookie of that cluster, and no older
process of it than the client knows of. So does its control plane with a call. And once a later
process of a bookie has greeted anybody, an earlier one acknowledges no add.
"""

from bookie.protocol.status import Status
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.history import History
from bookie.wire.identity import Identity
from bookie.wire.native import Op


class IdentityWatch:
    """See the module."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._meant: dict[int, Identity] = {}
        """Connection -> whom its client means."""
        self._answers: dict[int, Identity] = {}
        """Connection -> who greeted on it."""
        self._latest: dict[tuple[str, str], int] = {}
        """Cluster and bookie -> the highest epoch that has greeted anybody."""

    def heard(self, connection: int, message: bytes) -> None:
        """A bookie hears it."""
        if message[4] == Op.HELLO:
            self._meant[connection] = Identity.decode(parse_envelope(message).body)

    def said(self, connection: int, message: bytes) -> None:
        """A bookie says it."""
        op, code = message[4], message[5]
        if code != Status.OK:
            return
        if op == Op.HELLO and (meant := self._meant.get(connection)) is not None:
            own = self._answers[connection] = Identity.decode(parse_envelope(message).body)
            bookie = (own.cluster, own.bookie)
            self._latest[bookie] = max(own.epoch, self._latest.get(bookie, 0))
            self.check(meant, own, "greeted a client")
        elif op == Op.ADD_RUN and (answers := self._answers.get(connection)) is not None:
            self._check_latest(answers)

    def _check_latest(self, own: Identity) -> None:
        latest = self._latest[own.cluster, own.bookie]
        if own.epoch < latest:
            self._history.violate(
                f"boot {own.epoch} of {own.bookie} acknowledged an add though its boot {latest} "
                "serves"
            )

    def check(self, meant: Identity, own: Identity, what: str) -> None:
        """`own` did it to somebody who means `meant`."""
        is_other = meant.cluster and own.cluster and meant.cluster != own.cluster
        if own.bookie != meant.bookie or is_other or 0 < own.epoch < meant.epoch:
            self._history.violate(
                f"boot {own.epoch} of {own.bookie} of cluster {own.cluster} {what} that means boot "
                f"{meant.epoch} of {meant.bookie} of {meant.cluster}"
            )
