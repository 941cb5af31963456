"""What a transaction coordinator decides: states, transitions and refusals, without I/O, clock or loop."""
