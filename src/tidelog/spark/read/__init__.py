"""The batch read: its options, its plan, the tasks' pieces, and the reader that Spark drives."""
