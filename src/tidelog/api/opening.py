"""``open_log`` and ``open_directory``, the two entry points of the API."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tidelog.api.directory import Directory, find_partitions
from tidelog.api.log import Log
from tidelog.api.writing import DirectoryWriter
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import DirectoryError
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.fs import BY_PATH, path_of
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import require_log_directory
from tidelog.storage.manager.writable.managed_directories import ManagedDirectories
from tidelog.storage.manager.writable.writable_directory import SingleLog, WritableDirectory

PathLike = str | os.PathLike[str]


def open_log(
    path: PathLike, *, read_only: bool = False, config: LogConfig | None = None, clock: Clock = SYSTEM_CLOCK
) -> Log:
    """Open one partition by its directory, ``…/TOPIC-PARTITION``.

    With ``read_only`` nothing is created, written, locked or touched, and the directory may be a running broker's.
    Otherwise a missing directory is created, and a log is recovered after an unclean shutdown. The log directory around
    it is locked for this process. Raise LockedError if another process holds it. ``config`` None takes the topic's
    settings from the cluster metadata in the log directory, and Kafka's defaults for the rest.
    """
    directory = path_of(path)
    view = LogView(BY_PATH, directory)
    if read_only:
        _ = view.state  # a wrong path fails here, not at the first read
        return Log(view, clock=clock)
    owner = SingleLog(BY_PATH, directory, clock=clock, config=config)
    return Log(view, owner, owner.producers, clock=clock)


def open_directory(
    path_or_paths: PathLike | Iterable[PathLike],
    *,
    read_only: bool = False,
    housekeeping: bool = False,
    server_properties: PathLike | None = None,
    on_progress: ProgressListener | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Directory:
    """Open one or several log directories of a broker together.

    ``read_only`` has the meaning of ``open_log``. Raise DirectoryError if a partition is in two of the directories. For
    writing, a log is recovered when it is first requested.

    ``housekeeping`` does everything that a broker does with its logs. All logs are loaded at once, and ``on_progress``
    receives the progress. From 30 seconds later on, retention **deletes** segments by each topic's settings, silent
    producers are forgotten, and checkpoints are written. The cleaner **compacts** compacted topics from the start,
    unless ``log.cleaner.enable`` is false. ``server_properties`` is a broker's file; the topics' settings override it.
    Raise ConfigError for a file that Kafka would refuse.
    """
    if housekeeping and read_only:
        raise ValueError("housekeeping deletes and writes: it needs a directory that is opened for writing")
    if server_properties is not None and not housekeeping:
        raise ValueError("server_properties need housekeeping=True; without it a log needs a LogConfig: open_log")
    if isinstance(path_or_paths, str | os.PathLike):
        path_or_paths = [path_or_paths]
    paths = [path_of(path) for path in path_or_paths]
    if not paths:
        raise DirectoryError("no log directory given")
    if read_only:
        for path in paths:
            require_log_directory(BY_PATH, path)
        return Directory(BY_PATH, paths, clock=clock)
    find_partitions(BY_PATH, (path for path in paths if BY_PATH.exists(path)))  # checks before any lock is taken
    if housekeeping:
        broker = BrokerConfig() if server_properties is None else BrokerConfig.load(Path(server_properties))
        broker.log_warnings()
        managed = ManagedDirectories(BY_PATH, paths, clock=clock, broker=broker, on_progress=on_progress)
        return Directory(BY_PATH, paths, managed.directories(), clock=clock)
    writers: dict[Path, DirectoryWriter] = {}
    try:
        for directory in paths:
            writers[directory] = WritableDirectory(BY_PATH, directory, clock=clock)
        return Directory(BY_PATH, paths, writers, clock=clock)
    except BaseException:
        for writer in writers.values():
            writer.close()
        raise
