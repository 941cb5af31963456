"""Cluster metadata: topics, partitions, settings, brokers, features; who may change them and where they are kept."""
