"""APIs about the records of partitions, and where they lie."""
