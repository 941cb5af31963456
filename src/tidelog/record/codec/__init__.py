"""The codecs, a module per library: ``decompress(data, max_bytes)`` and ``compress(data, level)``."""
