"""The insides of the export job: keys and values decoded by Spark's own functions, and how far a write is."""
