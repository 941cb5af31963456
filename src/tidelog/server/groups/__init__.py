"""The group coordinator: classic groups, consumer groups (KIP-848), offsets and their log."""
