"""``server.properties`` in the first log directory: the settings of a broker started without a file.

Kafka and ``tidelog serve`` can both start with it on the same directory: it has absolute paths and all keys that Kafka
requires. It may contain passwords, so only its owner can read it. Each start without a file replaces it as a whole. A
file without tidelog's first line belongs to the user and stays unchanged. Kafka and tidelog ignore the file when they
load the directory. A crash leaves the old file or the new one. Source: ``java.util.Properties``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.checks import ALL_LOG_DIRS
from tidelog.config.java_properties import store_line
from tidelog.model import FileMissingError
from tidelog.storage.fs import LOCAL

PROPERTIES_FILE: Final = "server.properties"
_PATH_LISTS: Final = frozenset({"cordoned.log.dirs", "log.dir", "log.dirs", "metadata.log.dir"})
_FIRST_LINE: Final = "# Written by tidelog serve, and again whenever it is started without a file. To keep changes,"
_HEAD: Final = f"""{_FIRST_LINE}
# take this line out. Either server starts with this file: tidelog serve FILE, kafka-server-start FILE.
"""


def write_properties(config: BrokerConfig) -> Path | None:
    """Write the file durably and return its path, or return None if the user's own file is there.

    Raise OSError or StorageError. StorageError means that the path is not a regular file: opening a pipe would block.
    """
    path = Path(config.log_dirs[0]).absolute() / PROPERTIES_FILE
    if _is_anothers(path):
        return None
    temporary = path.with_name(f"{PROPERTIES_FILE}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(properties_text(config).encode("latin-1", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    LOCAL.sync_dir(path.parent)
    return path


def _is_anothers(path: Path) -> bool:
    first = _FIRST_LINE.encode()
    try:
        with LOCAL.open(path) as file:
            return file.pread(len(first), 0) != first
    except FileMissingError:
        return False


def properties_text(config: BrokerConfig) -> str:
    """Return the text of the settings that were set at the start."""
    lines = (_line(key, _absolute(key, setting.text)) for key, setting in config.static.items())
    return _HEAD + "".join(f"{line}\n" for line in lines)


def _absolute(key: str, text: str) -> str:
    if key not in _PATH_LISTS:
        return text
    parts = filter(None, (part.strip() for part in text.split(",")))
    return ",".join(part if part == ALL_LOG_DIRS else str(Path(part).absolute()) for part in parts)


def _line(key: str, value: str) -> str:
    """Return ``key=value`` as people write it if that is unambiguous: a colon in an address needs no backslash."""
    is_plain = value.isprintable() and "\\" not in value and value == value.lstrip()
    return f"{key}={value}" if is_plain else store_line(key, value)
