"""Compaction plans: the logs that are due, their offset ranges and the reasons, decided without file access."""
