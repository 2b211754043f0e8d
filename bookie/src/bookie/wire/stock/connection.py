"""Parses the requests of one connection, in whichever version of the wire its client speaks.

It works as in Apache's bookie: every connection starts with version 3, and the first frame that is
not of version 3 switches it to version 2, which it then keeps. A frame of version 2 is never taken
for one of version 3: its first byte, the version, would be a protobuf field number of 0.
"""

from bookie.wire.stock.messages import Request
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3, NotVersion3Error
from bookie.wire.stock.wire import Wire


class StockConnection:
    """One connection; `wire` is the version that it speaks now."""

    def __init__(self) -> None:
        self.wire: Wire = V3()

    def parse_all(self, view: memoryview) -> tuple[Wire, list[Request], int]:
        """Parse the whole frames at the start of `view`. Returns the wire to answer them with, the
        requests, and the number of bytes consumed.

        Call it again with the rest as long as bytes are consumed: a call stops where the version
        changes, and in front of a frame that cannot be parsed. When that frame is the first, the
        call raises FrameError, and the connection must be closed. Answer requests with the wire
        that was returned with them.
        """
        try:
            requests, consumed = self.wire.parse_all(view)
        except NotVersion3Error:
            self.wire = V2()
            requests, consumed = self.wire.parse_all(view)
        return self.wire, requests, consumed
