"""The batch read: its options, its plan, the tasks' pieces, the reader that Spark drives."""
