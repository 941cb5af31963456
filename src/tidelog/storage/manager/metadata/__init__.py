"""The cluster metadata in a log directory, as far as the engine reads it: the log, and the topics in it."""
