"""`bookie-operator local`: a BookieCluster on this machine, without Kubernetes. Start at `up`."""
