"""The APIs of a controller's listener: brokers' registrations, heartbeats and changes, and the metadata log."""
