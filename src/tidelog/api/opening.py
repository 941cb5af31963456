"""``open_log`` and ``open_directory``: the two ways in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tidelog.api.directory import Directory
from tidelog.api.log import Log
from tidelog.model import DirectoryError
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.log_view import LogView

PathLike = str | os.PathLike[str]


def open_log(
    path: PathLike, *, read_only: bool = False, config: LogConfig | None = None, clock: Clock = SYSTEM_CLOCK
) -> Log:
    """Open one partition by its directory, ``…/TOPIC-PARTITION``.

    With ``read_only`` nothing is created, written, locked or touched, and the directory may be a running broker's.
    Without, the directory is made if it is not there, and the log directory around it is locked for this process:
    LockedError where another holds it.
    """
    directory = Path(path)
    view = LogView(LOCAL, directory)
    if read_only:
        _ = view.state  # a wrong path shows here, not at the first read
        return Log(view, clock=clock)
    raise DirectoryError("writing", path=directory)


def open_directory(
    path_or_paths: PathLike | Iterable[PathLike], *, read_only: bool = False, clock: Clock = SYSTEM_CLOCK
) -> Directory:
    """Open the log directory of a broker, or its several ones together.

    ``read_only`` as for ``open_log``. DirectoryError for a partition that lies in two of them.
    """
    if isinstance(path_or_paths, str | os.PathLike):
        path_or_paths = [path_or_paths]
    paths = [Path(path) for path in path_or_paths]
    if not paths:
        raise DirectoryError("no log directory given")
    return Directory(LOCAL, paths, clock=clock)
