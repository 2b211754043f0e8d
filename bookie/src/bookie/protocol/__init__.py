"""The protocol core: sans-I/O rules. Events in, ordered effects out; shells do the rest.

Clients use `writer`, `reader` and `recovery`; a bookie uses `admission`, `clearing` and
`collection`; both use the arithmetic in `quorum`, `ledger` and `availability`. To learn the code,
start with `quorum`, then read `admission`.
"""
