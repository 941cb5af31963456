"""The Python API: ``open_log``, ``open_directory`` and ``snapshot``, and the types that they return."""

from tidelog.api.directory import Directory
from tidelog.api.log import Log
from tidelog.api.opening import open_directory, open_log
from tidelog.api.point_in_time import snapshot
from tidelog.api.producer import DirectoryProducer, Producer
from tidelog.api.transaction import DirectoryTransaction, Transaction
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.list_offsets import ListedOffset
from tidelog.storage.log.view.record_count import RecordCount
from tidelog.storage.manager.snapshot.snapshot import SnapshotResult

__all__ = [
    "Directory",
    "DirectoryProducer",
    "DirectoryTransaction",
    "ListedOffset",
    "Log",
    "LogConfig",
    "Producer",
    "RecordCount",
    "SnapshotResult",
    "Transaction",
    "open_directory",
    "open_log",
    "snapshot",
]
