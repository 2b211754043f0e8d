"""Changes a cluster, ledger by ledger: recovers, copies entries, replaces members, records losses.

Everything here may run twice, at once, or be cut off anywhere. `ledger_repair` and `ledger_move` do
one batch of ledgers, in process and in Spark tasks alike; `outcome` is what they say of each.
Start at `ledger_repair`.
"""
