"""The source cluster: its topics, offsets, settings and ACLs, and the fetching from its brokers."""
