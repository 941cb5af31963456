"""Storage records, which Kafka keeps in its own topics: field tables, a decoder and an encoder."""
