"""The control plane: its proto and generated code, `health` as values, and `client`, the one client
that repair, command line and operator ask bookies with.
"""
