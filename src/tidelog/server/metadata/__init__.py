"""The cluster metadata, the rules for its changes, and its storage."""
