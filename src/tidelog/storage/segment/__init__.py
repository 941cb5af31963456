"""The segments of a log: a segment is a ``.log`` with its indexes."""
