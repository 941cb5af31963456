"""Record batches v0, v1 and v2 from and to bytes: compression, control records, Arrow columns."""
