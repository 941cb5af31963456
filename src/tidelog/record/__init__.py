"""Bytes to and from record batches v0, v1 and v2: compression, control records, Arrow columns. No I/O, no clock."""
