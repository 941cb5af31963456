"""One partition: append, read, look-up, loading; and the view that reads a directory without owning it."""
