"""The engine that works in Spark: the only room that imports pyspark.

`sources` are the tables that an audit reads, `arrow` their columns, `tasks` how work is cut and
followed, `session` how Spark starts and ends. Start at `job`.
"""
