"""The storage of one bookie: what it keeps on its disks, and in which order that becomes durable.

`storage` takes adds and answers reads; `maintenance` checkpoints, marks, deletes and compacts;
below them are `journal`, `ledger_log` (both append through `stream`) and `index`. `permits`
remember that an add was allowed; they live here because the functions that change records must drop
them. Start at `storage`.
"""
