"""The move of a partition to another log directory while clients append to it."""
