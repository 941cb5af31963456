"""Regular expressions of subscriptions: RE2's syntax, matched in linear time against whole topic names."""
