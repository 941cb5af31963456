"""Staged files and their commits: files written outside the logs enter them together, exactly once."""
