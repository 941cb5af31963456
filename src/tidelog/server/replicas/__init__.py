"""The partitions of this broker. The entry point is ``replica_manager``."""
