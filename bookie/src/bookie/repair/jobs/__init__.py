"""Whole jobs from end to end: the order of their steps is here and nowhere else.

`job` is what all have in common: one cluster, one engine, one result object. `repair_job`,
`audit_job`, `drain_job` and `rereplication_job` are the kinds; `evacuation` takes ledgers off one
bookie for the latter two, `resume` is what a repair that was cut off had done. Start at `job`, then
`repair_job`.
"""
