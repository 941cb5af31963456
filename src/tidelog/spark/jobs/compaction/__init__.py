"""The insides of the compaction job: its table, and one large log cleaned by many tasks."""
