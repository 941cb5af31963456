"""Staged files become segments: batches that were written beside the log are taken into it without a copy."""
