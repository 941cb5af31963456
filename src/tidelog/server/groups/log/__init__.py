"""``__consumer_offsets``: which records are written, how they are read back, and what they mean."""
