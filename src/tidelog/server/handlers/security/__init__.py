"""The APIs of authentication: SASL, and SCRAM credentials."""
