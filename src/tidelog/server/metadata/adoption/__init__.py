"""Directories without a metadata log get one: what a broker with ZooKeeper left, or the Python API wrote."""
