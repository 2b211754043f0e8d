"""`kubectl bookie`: what a cluster's status says, and what a person decides, at the terminal.

Start at `__main__`.
"""
