"""The settings of a ``server.properties`` file, with their lines.

Java reads the file as ISO-8859-1. The last line of a repeated key counts.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.config.java_properties import properties
from tidelog.config.origin import Origin, OriginKind, Setting
from tidelog.model import ConfigError


def read_server_properties(path: Path) -> dict[str, Setting]:
    """Return the settings by key. Raise ConfigError if the file cannot be read or is malformed."""
    try:
        text = path.read_text(encoding="latin-1")
        return parse_server_properties(text, path.name)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from None
    except ValueError as error:
        raise ConfigError(str(error), path=path) from None


def parse_server_properties(text: str, file_name: str) -> dict[str, Setting]:
    """Return the settings by key. Raise ValueError for a malformed escape. Origins carry ``file_name``."""
    settings = {}
    for key, value, line in properties(text):
        origin = Origin(kind=OriginKind.FILE, key=key, file=file_name, line=line)
        settings[key] = Setting(text=value, origin=origin)
    return settings
