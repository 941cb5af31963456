"""Kafka's metadata in ZooKeeper: paths, a codec of znodes, their translation to records and back, and a reader."""
