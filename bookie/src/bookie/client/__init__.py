"""Client shells round the protocol core: connections, ledgers, the log of ledgers.

`writer`, `reader` and `recovery` run the cores of `protocol` over `connection`; `ledgers` creates,
opens and deletes; `log` is a replicated log of many ledgers. Start at `ledgers`.
"""
