"""The address of the inspector's pages: parsed and bound for ``tidelog web`` and ``tidelog serve --web``."""

from __future__ import annotations

import importlib.util
import socket
from dataclasses import dataclass

import click

DEFAULT_ADDRESS = "127.0.0.1:8088"
_NEEDED = ("starlette", "uvicorn", "jinja2")


@dataclass(frozen=True, slots=True)
class WebAddress:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, hint: str) -> WebAddress:
        """Parse HOST:PORT. Raise BadParameter for the option ``hint``."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise click.BadParameter(f"{text!r} is not HOST:PORT.", param_hint=hint)
        return cls(host.strip("[]"), int(port))

    def listen(self) -> socket.socket:
        """Return a bound socket. Raise UsageError if the address cannot be used."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            raise click.UsageError(f"{self.host}:{self.port} cannot be used: {error.strerror}.") from None
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError as error:
            listener.close()
            raise click.UsageError(f"{self.host}:{self.port} cannot be used: {error.strerror}.") from None
        return listener

    def url(self, listener: socket.socket) -> str:
        """Return the URL of the pages at the bound socket."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{listener.getsockname()[1]}/"


def require_web_extra() -> None:
    """Raise UsageError if a library of the extra ``web`` is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.UsageError(f"The pages need the extra web: pip install 'tidelog[web]' ({missing[0]} is missing).")
