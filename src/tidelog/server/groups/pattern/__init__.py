"""Regular expressions of subscriptions: RE2's syntax, matched with complete names in linear time."""
