"""The APIs of access control lists."""
