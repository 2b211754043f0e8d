"""Results for people and programs: the result object, the page, tables, lines of progress.

`result` makes the JSON object (docs/repair-result.md), `findings_report` the part of it that says
since when a finding is there, by the `finding_history`; `page` and `parquet` show it.
`progress_lines` are about work that goes on: `audit_progress`, `ledger_progress`. Start at
`result`.
"""
