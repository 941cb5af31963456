"""The parts of the compaction job: its table, and the cleaning of a large log by many tasks."""
