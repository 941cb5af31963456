"""The metrics of a manager and its logs."""
