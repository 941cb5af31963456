"""A partition's log: append, read, look up, load. A view reads a directory that it does not own."""
