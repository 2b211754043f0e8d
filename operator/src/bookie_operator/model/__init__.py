"""BookieCluster and BookieTask: spec and status, from which the CRDs are generated."""
