"""The compaction of a log directory without a broker: the plan and its execution."""
