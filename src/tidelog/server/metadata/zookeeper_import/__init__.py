"""The import of log directories without a metadata log, from a ZooKeeper broker or the Python API."""
