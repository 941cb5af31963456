"""The driver's part of a write: check that the directory is free, commit or remove staged files.

A directory has one owner at a time, and a commit is short. So the driver waits for a directory that another process
holds, up to the option ``lockTimeout``. Two queries may write to one directory. A directory that a broker holds is an
error before any task runs. The code runs in workers on the driver's machine. It raises the errors of ``commit_staged``,
and a LockedError names the time waited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from tidelog.model import LockedError, TopicPartition
from tidelog.runtime import Clock
from tidelog.spark.write.staging import StagedReport
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.staged.roll_forward import find_staged
from tidelog.storage.manager.staged.staged_commit import StagedCommit, StagedFile, StagedName, read_intent
from tidelog.storage.manager.writable.commit import commit_staged

_T = TypeVar("_T")
_PAUSE_MS = 20


class Commits:
    """The commits to one directory."""

    def __init__(self, fs: FileSystem, options: WriteOptions, *, clock: Clock) -> None:
        self._fs = fs
        self._options = options
        self._clock = clock

    def prepare(self) -> None:
        """Create the directory if it is missing, and check that no process holds it."""
        directory = self._options.log_dir
        if not self._fs.exists(directory):
            self._fs.make_dir(directory)
            self._fs.sync_dir(directory.parent)
        self._when_free(self._require_free)

    def commit(self, query: str, batch: int | None, reports: Iterable[StagedReport]) -> None:
        """Commit the files that the tasks of one batch have staged, by task."""
        files: dict[TopicPartition, tuple[StagedFile, ...]] = {}
        for report in reports:
            for partition, staged in report.files.items():
                files[partition] = files.get(partition, ()) + staged
        commit = StagedCommit(query=query, batch=batch, files=dict(sorted(files.items())))
        self._when_free(lambda: commit_staged(self._fs, self._options.log_dir, commit, clock=self._clock))

    def abort(self, reports: Iterable[StagedReport], query: str | None = None) -> None:
        """Remove the reported files, and all files staged for ``query`` if it is given. Files of a decided commit stay,
        because it will be carried out. The lock is needed, because a commit that Spark has given up may still be
        running."""
        names = {file.name for report in reports for files in report.files.values() for file in files}
        self._when_free(lambda: self._remove(names, query))

    def _remove(self, names: Collection[str], query: str | None) -> None:
        directory = self._options.log_dir
        lock = self._fs.lock(directory / LOCK_FILE)
        try:
            for name in find_staged(self._fs, directory, read_intent(self._fs, directory)):
                staged = StagedName.parse(name)
                if name in names or (staged is not None and staged.query == query):
                    self._fs.remove(directory / name, missing_ok=True)
        finally:
            lock.release()

    def _require_free(self) -> None:
        lock = self._options.log_dir / LOCK_FILE
        holder = self._fs.lock_holder(lock)
        if holder is not None:
            raise LockedError(f"process {holder} has locked it (a broker, or tidelog, is running on it)", path=lock)

    def _when_free(self, attempt: Callable[[], _T]) -> _T:
        end_ms = self._clock.monotonic_ms() + self._options.lock_timeout_ms
        while True:
            try:
                return attempt()
            except LockedError as error:
                if self._clock.monotonic_ms() >= end_ms:
                    waited = f"waited {self._options.lock_timeout_ms} ms for it (option 'lockTimeout')"
                    raise LockedError(f"{error.message}; {waited}", path=error.path) from None
            self._clock.sleep_ms(_PAUSE_MS)
