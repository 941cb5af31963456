"""What a fetch is made of: sessions, reading, waiting."""
