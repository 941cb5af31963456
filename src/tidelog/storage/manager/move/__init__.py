"""A partition moves to another log directory while it is written to."""
