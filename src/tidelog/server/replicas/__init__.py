"""The partitions of this broker: see ``replica_manager``."""
