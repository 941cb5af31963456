"""Staged files and their commits: what was written beside the logs is put into them, all of it, once."""
