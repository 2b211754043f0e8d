"""The requests of one connection, in whichever version of the wire its client speaks.

As Apache's bookie: every connection starts as version 3, and the first frame that is none makes it
version 2 for good. A frame of version 2 never passes for one of version 3: its first byte, the
version, would be a protobuf field number of 0.
"""

from bookie.wire.stock.messages import Request
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3, NotVersion3Error
from bookie.wire.stock.wire import Wire


class StockConnection:
    """`wire`: the version spoken now."""

    def __init__(self) -> None:
        self.wire: Wire = V3()

    def parse_all(self, view: memoryview) -> tuple[Wire, list[Request], int]:
        """Whole frames at the start of `view`: how to answer them, the requests, bytes consumed.

        Call it again with the rest as long as bytes are consumed: one call ends where the version
        changes, and in front of a frame that cannot be parsed. That one raises FrameError when it
        is first; the connection is of no use then. Answer requests by the wire they came with.
        """
        try:
            requests, consumed = self.wire.parse_all(view)
        except NotVersion3Error:
            self.wire = V2()
            requests, consumed = self.wire.parse_all(view)
        return self.wire, requests, consumed
