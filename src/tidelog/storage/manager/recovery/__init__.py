"""What a start after a kill would do to a log directory: planned, and carried out without a broker."""
