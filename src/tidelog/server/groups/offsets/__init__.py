"""The committed offsets of groups: their rules, storage, changes and expiry."""
