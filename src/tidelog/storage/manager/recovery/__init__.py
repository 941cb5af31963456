"""The recovery of a log directory without a broker, as at a startup after an unclean shutdown."""
