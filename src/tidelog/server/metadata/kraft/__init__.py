"""The cluster metadata of one process: Kafka's KRaft metadata log with a single voter."""
