"""One module a codec, each over a library: ``decompress(data, max_bytes)`` and ``compress(data, level)``."""
