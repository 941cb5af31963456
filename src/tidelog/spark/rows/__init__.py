"""The tables of each mode: what lies on the disk as Arrow batches."""
