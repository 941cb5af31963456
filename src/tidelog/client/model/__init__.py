"""Values that all floors of the client share: addresses, errors, waits."""
