"""The connection to a broker: frames, correlation, timeouts, versions, authentication."""
