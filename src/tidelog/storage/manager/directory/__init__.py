"""The log directories of one manager: which can be used, and what lies in each besides its logs."""
