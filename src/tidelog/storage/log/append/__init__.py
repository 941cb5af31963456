"""An append to a log: check, validate, distribute over segments, write."""
