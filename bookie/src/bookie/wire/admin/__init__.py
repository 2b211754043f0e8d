"""The control plane: its proto and generated code, `health` and `limbo_marks` as values.

`client` is the one client that repair, command line and operator ask bookies with.
"""
