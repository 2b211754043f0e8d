"""Messages between bookies, clients and operators: bytes to values and back.

`native` is our own wire, `stock` BookKeeper's versions 2 and 3; neither opens a socket. `identity`
says who answers, on all of them. `admin` is the control plane with the one client that asks it.
Start at `native`.
"""
