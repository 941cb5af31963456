"""Which logs are due for compaction, from where to where, and why: decided from values, without touching a file."""
