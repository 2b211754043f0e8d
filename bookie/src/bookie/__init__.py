"""BookKeeper-compatible bookies, safe without a journal; their client, repair and audit."""

import os

# gRPC reads this variable once, when it is imported. At a fork its handlers start a poller thread
# in the child, which may crash the child before it executes another program (grpc issue 43055);
# PySpark starts its JVM by such a fork. No code here uses gRPC in a forked child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
