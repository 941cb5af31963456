"""Classic groups: members join, the leader assigns partitions, and all members sync."""
