"""The facts for decisions about logs that are only read: topic settings, segment times, high watermarks."""
