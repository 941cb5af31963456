"""The snapshot of a log directory as of a time: linked segments, a truncated end, and settled transactions."""
