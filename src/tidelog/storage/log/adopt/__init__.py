"""Adoption of staged files: batches written outside the log become its segment without a copy."""
