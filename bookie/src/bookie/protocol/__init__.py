"""The protocol core: sans-I/O rules. Events in, ordered effects out; shells do the rest.

Of a client: `writer`, `reader`, `recovery`. Of a bookie: `admission`, `clearing`, `collection`. The
arithmetic below them: `quorum`, `ledger`, `availability`. Start at `quorum`, then `admission`.
"""
