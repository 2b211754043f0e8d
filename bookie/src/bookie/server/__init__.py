"""One bookie process: start and stop order, connections, control plane, probes."""
