"""Read-only reports over data directories: decode as far as possible, never write."""
