"""`kubectl bookie`: what a cluster's status says, and what a person decides, at the terminal."""
