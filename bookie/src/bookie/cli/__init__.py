"""The `bookie` command line: one module per group of commands, loaded when asked for.

People and the operator's jobs run the same commands; `jobs` is what all long ones share. Start at
`main`.
"""
