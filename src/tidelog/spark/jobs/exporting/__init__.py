"""The parts of the export job: the decoding of keys and values, and Spark's errors in plain words."""
