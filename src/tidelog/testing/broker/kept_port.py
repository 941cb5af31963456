"""A free port that stays reserved for a node of this machine, over all its starts."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"


def keep_port() -> socket.socket:
    """Reserve a free port on which a node can listen: the socket is bound and never listens itself."""
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind((HOST, 0))
    return place
