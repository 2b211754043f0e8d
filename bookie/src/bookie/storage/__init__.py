"""What one bookie keeps on its disks, and the order in which it becomes durable."""
