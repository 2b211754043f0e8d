"""ZooKeeper's figures for Prometheus: `mntr` turns its answer into text, `exporter` serves it."""
