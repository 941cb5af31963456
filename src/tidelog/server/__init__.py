"""The broker: network listeners and request handlers in front of the storage engine."""
