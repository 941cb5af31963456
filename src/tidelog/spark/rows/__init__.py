"""The tables of each mode: the contents of the files as Arrow batches."""
