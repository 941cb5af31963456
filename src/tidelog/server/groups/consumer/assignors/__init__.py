"""Server-side assignors of consumer groups (KIP-848): from subscriptions to assignments."""
