"""Who compacts, and when: threads, what they may not touch at the moment, how far they have come."""
