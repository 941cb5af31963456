"""The copy: a log directory that this process owns, with its metadata log and its logs."""
