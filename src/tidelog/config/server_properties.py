"""``server.properties``: the text that was set for each key, and on which line.

Java reads such files as ISO-8859-1, and of a key that occurs twice the last line counts. Called by: ``BrokerConfig``.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.config.java_properties import properties
from tidelog.config.origin import Origin, OriginKind, Setting
from tidelog.model import ConfigError


def read_server_properties(path: Path) -> dict[str, Setting]:
    """By key. ConfigError for a file that cannot be read, or is not one of properties."""
    try:
        text = path.read_text(encoding="latin-1")
        return parse_server_properties(text, path.name)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from None
    except ValueError as error:
        raise ConfigError(str(error), path=path) from None


def parse_server_properties(text: str, file_name: str) -> dict[str, Setting]:
    """By key; ValueError for a malformed escape. ``file_name`` stands in origins."""
    settings = {}
    for key, value, line in properties(text):
        origin = Origin(kind=OriginKind.FILE, key=key, file=file_name, line=line)
        settings[key] = Setting(text=value, origin=origin)
    return settings
