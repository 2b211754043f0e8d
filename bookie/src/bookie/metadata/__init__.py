"""The metadata store: ledger metadata, cookies and registrations behind one compare-and-set
interface.

There are two stores, `zookeeper` (in BookKeeper's layout) and `memory`, with the interface in
`store`: start there. `codec` and `cookie` have BookKeeper's formats, `boots` the format of a
bookie's claim.
"""
