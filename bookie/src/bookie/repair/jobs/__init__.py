"""Whole jobs from end to end: the order of their steps is here and nowhere else.

`repair_job`, `audit_job`, `drain_job`, `rereplication_job`; `evacuation` takes ledgers off one
bookie for the latter two, `resume` is what a repair that was cut off had done. Start at
`repair_job`.
"""
