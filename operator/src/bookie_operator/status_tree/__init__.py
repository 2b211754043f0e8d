"""A status for people, as a tree: one rendering for every command that shows one."""
