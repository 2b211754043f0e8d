"""Client shells round the protocol core: connections, ledgers, the log of ledgers.

`writer`, `reader` and `recovery` run the cores of `protocol`; `pool` carries what they send, with a
`channel` to each bookie. `bookkeeper_client` creates, opens and deletes ledgers; `log` is a
replicated log of many. Start at `bookkeeper_client`.
"""
