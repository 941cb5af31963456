"""The log directories of one manager: their condition, and their files outside the logs."""
