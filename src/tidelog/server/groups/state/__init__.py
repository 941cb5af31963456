"""The state of groups and offsets as the log has it. Only ``records.replay`` and the classic rebalance change it."""
