"""The check of the configured log directories, before anything is locked or written.

====================================  ========================================================================
a directory                           effect
====================================  ========================================================================
configured twice (links resolved)     DirectoryError: nothing is opened
missing                               created
not a directory, not readable, or     offline, with the reason; the others are used
cannot be created
locked by another process             LockedError from ``LogDirectory``: nothing is opened
====================================  ========================================================================

If no directory is usable, a DirectoryError lists all reasons. Source: Kafka's ``LogManager.createAndValidateLogDirs``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import DirectoryError, StorageError
from tidelog.storage.fs import FileSystem

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedDirectories:
    usable: tuple[Path, ...]
    offline: dict[Path, StorageError]


def check_directories(fs: FileSystem, paths: Sequence[Path]) -> CheckedDirectories:
    """Check the directories. Raise DirectoryError if there is none, a duplicate, or none that is usable."""
    if not paths:
        raise DirectoryError("no log directory is configured: log.dirs is empty")
    seen: dict[Path, Path] = {}
    for path in paths:
        real = path.resolve()
        if real in seen:
            raise DirectoryError(f"Duplicate log directory found: it is the same directory as {seen[real]}", path=path)
        seen[real] = path
    offline: dict[Path, StorageError] = {}
    for path in paths:
        try:
            _make_and_list(fs, path)
        except StorageError as error:
            _log.error("The log directory %s cannot be used: %s", path, error)
            offline[path] = error
    if len(offline) == len(paths):
        raise DirectoryError(f"none of the log directories can be created or read: {reasons_of(offline)}")
    return CheckedDirectories(tuple(path for path in paths if path not in offline), offline)


def reasons_of(offline: Mapping[Path, StorageError]) -> str:
    """Return why each directory is offline, with the failing file, in one line."""
    return "; ".join(map(str, offline.values()))


def _make_and_list(fs: FileSystem, path: Path) -> None:
    if not fs.exists(path):
        _log.info("Log directory %s not found, creating it", path)
        fs.make_dir(path)
        fs.sync_dir(path.absolute().parent)
    fs.list_names(path)
