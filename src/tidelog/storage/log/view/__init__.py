"""A log as somebody sees it who does not own it: read-only, also beside a live writer."""
