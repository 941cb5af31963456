"""Changes of an open log other than appends: flush, truncation, deletion, replacement of segments."""
