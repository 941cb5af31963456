"""The facts for decisions about logs that are only read: settings, segment times, high watermarks."""
