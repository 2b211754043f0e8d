"""Bytes of entries and runs: layout, building, parsing, checksums. No rule of a protocol.

`entry` is BookKeeper's format of one entry, `frame` ours of many. There is one builder (`build`),
one parser (`frame.parse_run`) and one verifier of digests (`digests`). Start at `frame`.
"""
