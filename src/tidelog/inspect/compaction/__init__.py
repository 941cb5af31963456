"""The ``cleaner`` report: which logs are due for compaction, why not, and the effect of a clean."""
