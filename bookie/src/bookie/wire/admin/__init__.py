"""The control plane: its proto and generated code, `health`, `limbo_marks` and answers as values.

`client` is the one client that repair, command line and operator ask bookies with.
"""
