"""Topics and their partitions: made, deleted, described, reassigned."""
