"""Ledger metadata, cookies and registrations: one compare-and-set interface, two stores.

Both stores, `zookeeper` (in BookKeeper's layout) and `memory`, keep the contract of `store`: start
there. `codec` and `cookie` are BookKeeper's formats, `boots` the claims of bookies.
"""
