"""The ``tidelog`` command. Each command has a file and returns a report, which ``output`` prints."""
