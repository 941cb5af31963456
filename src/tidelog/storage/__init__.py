"""The engine: one room a concern, from the operating system (``fs``) up to many partitions (``manager``)."""
