"""The records of ``__consumer_offsets``: how they are written, read back and applied."""
