"""Kafka's configuration: the keys, the meaning of texts, and the origins of values."""
