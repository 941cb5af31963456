"""Log compaction, which keeps each key's last value: plans, cleans, and the cleaner's threads."""
