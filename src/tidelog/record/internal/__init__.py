"""Storage records: what Kafka keeps in its own topics, as tables of fields with one decoder and one encoder."""
