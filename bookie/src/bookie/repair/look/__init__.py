"""Reads metadata, asks bookies, and has the answers judged. It changes nothing in a cluster.

`cluster` holds what all work goes through: metadata store, bookies' data and control planes
(`bookie_control`). `survey` looks at all ledgers once, `audit` looks again at the doubtful ones,
`digests` and `entries` read every copy. `same_cluster` refuses input of two clusters. Start at
`cluster`, then `audit`.
"""
