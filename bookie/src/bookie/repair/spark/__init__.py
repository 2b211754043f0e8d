"""The engine that works in Spark: the only room that imports pyspark.

`engine` starts a session with the first ledgers and has `tasks` run the work on rows: parts of a
list of ledgers, or the tables of `sources`, whose columns `arrow` converts. `session` is how Spark
starts and ends. Start at `engine`.
"""
