"""Compaction: for each key its last value; which log is due, how it is rewritten, who does it and when."""
