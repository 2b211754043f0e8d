"""One bookie process: start and stop order, connections, control plane, probes.

`lifecycle` starts and stops everything. Three groups of modules hang on it:

- wires: `connections`, `requests` (ours), `stock*` (BookKeeper's), `sessions`, `replies`;
- answers: `operations` (adds, reads, fences), `durable`, `marks` (with `recheck`), `control`,
  `admin` (gRPC);
- duties: `housekeeping` checkpoints, and calls `collect`, `announce`, `lease`, `drain`, `marks`.

Start at `lifecycle`, then `operations`.
"""
