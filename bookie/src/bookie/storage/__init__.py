"""What one bookie keeps on its disks, and the order in which it becomes durable.

`storage` takes adds and answers reads; `maintenance` checkpoints, marks, deletes and compacts;
below them are `journal`, `ledger_log` (both append by `stream`) and `index`. `permits`, which
remember that an add was allowed, live here because the functions that change records must drop
them. Start at `storage`.
"""
