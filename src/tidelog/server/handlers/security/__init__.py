"""Handlers of who clients are: log-ins, and users' passwords."""
