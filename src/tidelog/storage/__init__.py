"""The storage engine. Each package has one concern, from ``fs`` (system calls) up to ``manager``."""
