"""The APIs of groups, of committed offsets, and of finding coordinators."""
