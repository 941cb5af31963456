"""Kafka's configuration: which keys there are, what a text means, where a value came from.."""
