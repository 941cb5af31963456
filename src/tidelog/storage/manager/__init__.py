"""The management of many logs: every concern of a whole log directory."""
