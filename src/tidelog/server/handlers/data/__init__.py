"""The APIs of records, and of the log directories that hold them."""
