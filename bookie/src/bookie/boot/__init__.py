"""The boot of a bookie, and the end of a stop: whose disks, what is marked, who serves."""
