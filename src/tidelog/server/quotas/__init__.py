"""Client quotas on produce, fetch, request time and partition changes, and their throttle times."""
