"""Log directories that the Python API opens for writing, with or without a LogManager, and commits of staged files."""
