"""Read-only reports over data directories. They decode as much as possible and never write."""
