"""The rows of the broker: Kafka's own clients and tools with each of the two brokers, all in separate processes."""
