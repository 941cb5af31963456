"""The broker: sockets in front of the engine, and what Kafka's clients ask of it."""
