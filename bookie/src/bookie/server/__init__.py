"""One bookie process: its start and stop, connections, control plane and probes.

`lifecycle` starts and stops everything. It uses three groups of modules:

- wires: `connections`, `requests` (ours), `stock*` (BookKeeper's), `sessions`, `replies`;
- answers: `operations` (adds, reads, fences), `durable`, `marks` (with `recheck`), `control`,
  `admin` (gRPC);
- duties: `housekeeping` checkpoints, and calls `collect`, `announce`, `lease`, `drain`, `marks`.

Start at `lifecycle`, then `operations`.
"""
