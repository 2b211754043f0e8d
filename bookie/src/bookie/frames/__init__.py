"""The bytes of entries and runs: their layout, building, parsing and checksums. No protocol rules.

`entry` has BookKeeper's format of one entry, `frame` our format of a run of entries. There is one
builder (`build`), one parser (`frame.parse_run`) and one verifier of digests (`digests`). Start at
`frame`.
"""
