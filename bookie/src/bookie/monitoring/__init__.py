"""ZooKeeper's metrics for Prometheus: `mntr` converts the answer of a ZooKeeper into Prometheus's
text format, and `exporter` serves it.
"""
