"""Assignors of consumer groups on the server's side (KIP-848): from who reads what to who gets what."""
