"""Cleaning one log: its keys mapped, its segments rewritten without what is obsolete."""
