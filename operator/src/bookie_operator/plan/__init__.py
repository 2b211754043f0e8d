"""The planner: what to do next. `planner.plan` puts it together from all other modules."""
