"""The web page of a fleet: what the status says, for a browser; it changes nothing.

`document` makes the page of some clusters, `serving` serves it on this machine alone.
"""
