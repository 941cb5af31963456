"""Storage records, which Kafka keeps in its own topics: tables of fields, with one decoder and one encoder."""
