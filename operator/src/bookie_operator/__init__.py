"""Reconciles BookieCluster resources: observe, plan, act, report; on Kubernetes or locally."""
