"""The test kit: fakes of our own seams, simulated disks and clocks.

Not in the wheel. Tests, benchmarks, labs and the simulation import it from the checkout.
"""
