"""Many logs: what concerns a whole log directory."""
