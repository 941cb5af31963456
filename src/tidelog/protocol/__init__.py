"""Kafka's wire protocol without I/O: it decodes bytes to values and encodes values to bytes."""
