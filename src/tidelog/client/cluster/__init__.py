"""A cluster: its metadata, its brokers, and a connection to each of them."""
