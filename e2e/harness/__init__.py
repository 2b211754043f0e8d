"""What the stories on Kubernetes are told with: a kind cluster, a fleet on it, faults, a writer."""
