"""A run of a mirror: the copying of partitions, rounds over the metadata, progress, limits, the end."""
