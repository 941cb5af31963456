"""The clean of a single log: its keys go into the offset map, its segments are rewritten without obsolete records."""
