"""The clean of a log: keys go into the offset map, segments lose their obsolete records."""
