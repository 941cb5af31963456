"""APIs of the access control lists."""
