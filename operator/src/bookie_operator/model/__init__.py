"""BookieCluster and BookieTask: spec and status, from which the CRDs are generated.

Start at `cluster` (the spec), then `status`.
"""
