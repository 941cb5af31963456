"""The closing of the logs of several log directories in parallel, each directory with its own threads.

Source: Kafka's ``LogManager.shutdown``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.manager.directory.directory_set import level_of
from tidelog.storage.manager.directory.log_directory import LogDirectory

_log = logging.getLogger(__name__)


def close_logs(directories: Collection[LogDirectory], threads: int) -> set[Path]:
    """Flush and close every log. Return the paths of the directories in which a log failed to close."""
    failed: set[Path] = set()

    def close(directory: LogDirectory, partition: TopicPartition) -> None:
        try:
            directory.logs[partition].close()
        except TidelogError as error:
            _log.log(level_of(error), "%s was not closed cleanly: %s", directory.logs[partition].directory, error)
            failed.add(directory.path)
        directory.note_closed(partition)

    with ExitStack() as pools:
        for directory in directories:
            pool = pools.enter_context(ThreadPoolExecutor(threads, f"log-closing-{directory.path}"))
            for partition in list(directory.logs):
                pool.submit(close, directory, partition)
    return failed
