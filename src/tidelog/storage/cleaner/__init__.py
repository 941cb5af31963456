"""Log compaction, which keeps each key's last value: its plans, the rewriting of segments, the cleaner's threads."""
