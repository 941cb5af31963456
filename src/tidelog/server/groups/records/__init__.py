"""The records of ``__consumer_offsets``: built from the state, and applied to it."""
