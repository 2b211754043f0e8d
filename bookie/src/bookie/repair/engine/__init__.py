"""Where the work runs: in this process, or in Spark's tasks on this machine or in pods.

`engine` has the interface and the one that is this process; `choice` says which one works, and why.
Free of Spark: the room `spark` is imported when its engine is opened (`jobs.job`). Start at
`engine`.
"""
