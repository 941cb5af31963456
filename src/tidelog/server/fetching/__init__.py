"""The parts of a fetch: sessions, reads and the delayed fetch."""
