"""The state of an open log: its parts, the locks, and the changes that several operations share."""
