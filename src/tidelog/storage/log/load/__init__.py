"""Load a log: what a crash left is settled, what was not flushed is recovered."""
