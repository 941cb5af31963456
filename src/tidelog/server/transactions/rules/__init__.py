"""The decisions of a transaction coordinator: states, transitions, refusals. No I/O, clock or loop."""
