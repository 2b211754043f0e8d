"""The shipped test kit: fakes, simulated disks and clocks. Imported by tests only."""
