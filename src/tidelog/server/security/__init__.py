"""Who clients are, and how they show it: TLS and SASL. Bytes in, bytes out; sockets are the network's."""
