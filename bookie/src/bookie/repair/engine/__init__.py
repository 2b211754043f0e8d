"""Where the work runs: in this process, or in Spark's tasks on this machine or in pods.

`choice` says which engine and why. No Spark here: the room `spark` is imported when that engine was
chosen. Start at `engine`.
"""
