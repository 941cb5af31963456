"""The network layer: listeners, which accept connections, and connections with their security."""
