"""Authentication and encryption: TLS and SASL on bytes, without sockets. The network layer owns the sockets."""
