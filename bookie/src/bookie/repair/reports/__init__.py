"""What people and programs are told: the result object, the page, tables, progress lines.

`result` makes the JSON object (docs/repair-result.md), `findings_report` the part of it that says
since when a finding is there, by the `history`; `page` and `parquet` show it. `printing` writes
lines about work that goes on. Start at `result`.
"""
