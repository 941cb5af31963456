"""A read-only view of a log that another process may own and write."""
