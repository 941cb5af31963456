"""The logs of a manager: lookup, creation, opening, settings, removal."""
