"""The report on one partition's log: segments, offsets, epochs, indexes, transactions and all other files."""
