"""The parts of TLS and SASL that the broker and the client share: stores, contexts, credentials."""
