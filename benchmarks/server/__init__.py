"""The rows of the broker: Kafka's own clients and tools between two brokers, each a process of its own."""
