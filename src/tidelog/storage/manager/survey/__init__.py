"""What decides about logs that are only read: their topics' settings, their segments' times, their high watermarks."""
