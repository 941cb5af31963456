"""The metadata of a broker whose controllers are other nodes: its copy, its registration, and its requests to them."""
