"""The sinks: Spark tasks write rows to staged files, and the driver commits them."""
