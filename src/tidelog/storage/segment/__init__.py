"""One segment: a ``.log`` with its indexes."""
