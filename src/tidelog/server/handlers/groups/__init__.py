"""APIs of groups and of their committed offsets, and where coordinators are found."""
