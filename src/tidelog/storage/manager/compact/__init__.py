"""Compaction of a log directory that nobody has open: planned, and carried out without a broker."""
