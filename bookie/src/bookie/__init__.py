"""BookKeeper-compatible bookies, safe without a journal; their client, repair and audit."""

import os

# gRPC reads it once, as it is imported. Its handlers at a fork start a poller's thread in the
# child, which may crash it before it is another program (grpc issue 43055); PySpark starts its JVM
# by such a fork. Nothing here goes on with gRPC in a forked child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
