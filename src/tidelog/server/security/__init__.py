"""Authentication and encryption, TLS and SASL, on bytes. The network layer owns the sockets."""
