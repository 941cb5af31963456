"""The logs of a manager: lookup, loading, creation, settings, cleaning, moves, removal."""
