"""The log directories that the pages are about, with their small files and open logs.

A page names a log directory by its key, a number from 0 in the sequence of the command line, and a partition's log by
the name of its directory. Only names that a listing has are opened, so no URL reaches a path outside the given
directories. Views of logs are kept while the files keep their names and sizes. Reads only.

Thread rule: any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

from tidelog.inspect.compare.broker_directory import BrokerDirectory, read_broker_directory
from tidelog.model import DirectoryError, TidelogError, TopicPartition
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import BY_PATH, FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import require_log_directory
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

_MOST_VIEWS = 64


class NotFoundError(TidelogError):
    """A URL names something that does not exist."""


class LogDir:
    """A log directory. ``key`` stands for it in URLs."""

    def __init__(self, key: str, path: Path, fs: FileSystem = BY_PATH) -> None:
        self.key = key
        self.path = path
        self.fs = ReadOnlyFileSystem(fs)
        self._lock = threading.Lock()
        self._state: DirectoryState | None = None
        self._listed: tuple[list[str], list[tuple[str, PartitionDirectoryName]]] = ([], [])
        self._views: OrderedDict[str, tuple[Hashable, LogView]] = OrderedDict()

    def state(self) -> DirectoryState:
        """Return the lock, marker and checkpoints as they are now. Unchanged files are not read again."""
        state = read_directory_state(self.fs, self.path, self._state)
        self._state = state
        return state

    @property
    def is_held(self) -> bool:
        """True while a process holds the directory, so that its files change all the time."""
        return self.state().condition is DirectoryCondition.HELD

    def read_meta(self) -> MetaProperties | None:
        """Return ``meta.properties``, or None if it is missing. Raise StorageError if it cannot be read."""
        return MetaProperties.read(self.fs, self.path / META_PROPERTIES_FILE)

    def meta(self) -> MetaProperties | None:
        """Return ``meta.properties``, or None if it is missing or cannot be read."""
        return MetaProperties.read_or_none(self.fs, self.path / META_PROPERTIES_FILE)

    def broker_directory(self) -> BrokerDirectory:
        """Return the small files in the form that the comparison of replicas takes."""
        return read_broker_directory(self.fs, self.path)

    def directories(self) -> Sequence[tuple[str, PartitionDirectoryName]]:
        """Return the directories of partitions with their names, those being added or removed included. Unchanged
        names are not parsed again."""
        names = self.fs.list_directories(self.path)
        listed = self._listed
        if listed[0] != names:
            listed = (names, list(_parsed(names)))
            self._listed = listed
        return listed[1]

    def partitions(self) -> list[TopicPartition]:
        """Return the live partitions in the order of their directories' names."""
        return [parsed.topic_partition for _, parsed in self.directories() if parsed.purpose is DirectoryPurpose.LIVE]

    def directory(self, name: str) -> Path:
        """Return the path of a partition's directory. Raise NotFoundError unless the log directory has it."""
        try:
            PartitionDirectoryName.parse(name)
        except DirectoryError as error:
            raise NotFoundError(error.message) from None
        if name not in self.fs.list_directories(self.path):
            raise NotFoundError(f"the log directory has no {name}", path=self.path)
        return self.path / name

    def signature(self, name: str) -> Hashable:
        """Return a value that changes when a file of a partition's directory changes its name or size, or when the
        directory's condition or a checkpoint changes."""
        path = self.directory(name)
        state = self.state()
        stats = tuple((file, read.stat) for file, read in sorted(state.checkpoints.items()))
        return (state.condition, stats, tuple(self.fs.list_sizes(path).items()))

    def view(self, name: str) -> LogView:
        """Return the view of a partition's log, with its state loaded.

        After an unclean shutdown, loading reads all unflushed segments. So a page calls this in a job of ``Jobs``.
        """
        signature = self.signature(name)
        with self._lock:
            kept = self._views.get(name)
            if kept is not None and kept[0] == signature:
                self._views.move_to_end(name)
                return kept[1]
        state = self.state()
        if kept is not None and state.condition is DirectoryCondition.HELD:
            view = kept[1].renewed(state)
        else:
            view = LogView(self.fs, self.path / name, directory_state=state)
        _ = view.state
        with self._lock:
            self._views[name] = (signature, view)
            self._views.move_to_end(name)
            while len(self._views) > _MOST_VIEWS:
                self._views.popitem(last=False)
        return view


def _parsed(names: Iterable[str]) -> Iterator[tuple[str, PartitionDirectoryName]]:
    for name in names:
        try:
            yield name, PartitionDirectoryName.parse(name)
        except DirectoryError:
            continue


class Sources:
    """All given log directories. ``schemas`` is a folder of Avro schemas (``ID.avsc``)."""

    def __init__(self, log_dirs: Sequence[LogDir], *, schemas: Path | None = None) -> None:
        self.log_dirs = tuple(log_dirs)
        self.schemas = schemas
        self._settings: tuple[Hashable, dict[Path, SettingSources]] | None = None

    @classmethod
    def of(cls, paths: Iterable[Path], fs: FileSystem = BY_PATH, *, schemas: Path | None = None) -> Sources:
        """Create the sources. Raise DirectoryError or FileMissingError for a path that is no log directory, or for a
        missing folder of schemas."""
        found = []
        for number, path in enumerate(paths):
            require_log_directory(ReadOnlyFileSystem(fs), path)
            found.append(LogDir(str(number), path, fs))
        if schemas is not None:
            fs.list_names(schemas)
        return cls(found, schemas=schemas)

    def log_dir(self, key: str) -> LogDir:
        """Return a log directory by its key. Raise NotFoundError."""
        for one in self.log_dirs:
            if one.key == key:
                return one
        raise NotFoundError(f"there is no log directory with the key {key}")

    def holders(self, partition: TopicPartition) -> list[LogDir]:
        """Return the log directories that have a live log of a partition."""
        name = partition.directory_name
        return [one for one in self.log_dirs if name in one.fs.list_directories(one.path)]

    def settings(self, log_dir: LogDir) -> SettingSources:
        """Return the sources of topics' settings, read again when a metadata log has changed."""
        signature = self.metadata_signature()
        kept = self._settings
        if kept is None or kept[0] != signature:
            kept = (signature, read_setting_sources(BY_PATH, [one.path for one in self.log_dirs]))
            self._settings = kept
        return kept[1][log_dir.path]

    def metadata_signature(self) -> Hashable:
        """Return a value that changes with the names and sizes of the metadata logs' files."""
        return tuple(_metadata_sizes(one) for one in self.log_dirs)


def _metadata_sizes(log_dir: LogDir) -> Hashable:
    path = log_dir.path / METADATA_DIRECTORY
    return tuple(log_dir.fs.list_sizes(path).items()) if log_dir.fs.exists(path) else None
