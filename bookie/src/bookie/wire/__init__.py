"""Messages between bookies, clients and operators: bytes to values and back.

`native` is our own wire protocol, `stock` is versions 2 and 3 of BookKeeper's; neither opens a
socket. `identity` is how our own protocols say which bookie answers. `admin` is the control plane,
with the one client for it. Start reading at `native`.
"""
