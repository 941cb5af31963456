"""The sinks: rows to staged files in Spark's tasks, and their commit by the driver."""
