"""The control plane of a bookie: its proto file, the code generated from it, and its answers as
values (`health`, `limbo_marks`, `request_answer`).

`client` is the one client through which the repair, the command line and the operator ask bookies.
"""
