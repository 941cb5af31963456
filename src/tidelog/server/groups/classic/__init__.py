"""Classic groups: members join, one of them assigns, all sync; the coordinator only keeps them together."""
