"""Sockets: connections that carry frames in and answers out, and who accepts them."""
