"""What the parts cost on this machine, as ratios within one run: `python -m benchmarks`."""
