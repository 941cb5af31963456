"""Who appends under a producer id, and where ids come from."""
