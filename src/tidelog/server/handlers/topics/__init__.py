"""The APIs of topics and partitions: create, delete, describe, reassign, elect leaders."""
