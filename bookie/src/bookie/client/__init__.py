"""The client: shells with I/O round the protocol core, for connections, ledgers and logs of
ledgers.

`writer`, `reader` and `recovery` run the cores of `protocol`; `pool` sends their messages, over a
`channel` to each bookie. `bookkeeper_client` creates, opens and deletes ledgers; `log` is a
replicated log of many ledgers. Start at `bookkeeper_client`.
"""
