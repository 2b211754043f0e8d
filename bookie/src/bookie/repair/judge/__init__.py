"""Arithmetic on metadata and answers: what bookies should hold, hold, and what follows.

No I/O. `expect` judges one ledger, entry by entry; `bulk` judges thousands at once, held as numpy
`columns`. `counts`, `tally`, `quorums`, `last_copies` and `adherence` (racks) are what an audit
sums up. Start at `expect`.
"""
