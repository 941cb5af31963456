"""The small files of a log directory: identity, marker and lock, checkpoints, and all other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.inspect.start_survey import StartOutlook
from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    MetaProperties,
)
from tidelog.storage.fs import TEMPORARY_SUFFIX, FileStat
from tidelog.storage.log.view.directory_state import LOCK_FILE, DirectoryCondition, DirectoryState
from tidelog.storage.log.view.partitions import REMOTE_INDEX_CACHE
from tidelog.storage.manager.staged.staged_commit import INTENT_FILE, PREFIX
from tidelog.web.page import Column, Fact, Kind, Row, Section, Table
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir

_CHECKPOINTS = {
    RECOVERY_POINT_CHECKPOINT: "records below it are flushed; recovery begins in its segment",
    LOG_START_CHECKPOINT: "log start offsets above a log's first segment",
    HIGH_WATERMARK_CHECKPOINT: "high watermarks: records below are replicated",
    CLEANER_CHECKPOINT: "the end of each log's last clean",
}
_KNOWN_FILES = {
    **_CHECKPOINTS,
    META_PROPERTIES_FILE: "the cluster, the broker and the log directory that the files belong to",
    LOCK_FILE: "the broker's lock; the file stays when the broker ends",
    CLEAN_SHUTDOWN_FILE: "the marker of a clean shutdown",
    "bootstrap.checkpoint": "the first records of a new cluster's metadata",
    REMOTE_INDEX_CACHE: "copies of indexes from remote storage",
    INTENT_FILE: "a decided commit of tidelog's Spark sink; the next owner carries it out",
}


def identity_facts(
    log_dir: LogDir, state: DirectoryState, names: Sequence[str], logs: Sequence[StartOutlook] | None
) -> list[Fact]:
    """Return whose directory it is, how it was left, and its sizes."""
    meta = log_dir.meta()
    return [
        *_meta_facts(meta),
        Fact(name="condition", title="last shutdown", value=_condition(state)),
        *_marker_facts(log_dir),
        Fact(name="lock_holder", title="held by process", value=state.holder, kind=Kind.CODE),
        Fact(name="directories", value=len(names), kind=Kind.NUMBER),
        Fact(name="segments", value=None if logs is None else sum(log.segments for log in logs), kind=Kind.NUMBER),
        Fact(
            name="bytes", title="space", value=None if logs is None else sum(log.bytes for log in logs), kind=Kind.BYTES
        ),
        Fact(
            name="recover_bytes",
            title="to recover",
            value=None if logs is None else sum(log.recover_bytes for log in logs),
            kind=Kind.BYTES,
            help="Sizes of the .log files that the next start reads",
        ),
        Fact(
            name="leftovers",
            title="leftover files",
            value=None if logs is None else sum(log.leftovers for log in logs),
            kind=Kind.NUMBER,
            help="Files that the next start removes or renames",
        ),
    ]


def _meta_facts(meta: MetaProperties | None) -> list[Fact]:
    directory_id = None if meta is None or meta.directory_id is None else uuid_to_text(meta.directory_id)
    return [
        Fact(name="cluster_id", title="cluster", value=None if meta is None else meta.cluster_id, kind=Kind.CODE),
        Fact(name="node_id", title="node", value=None if meta is None else meta.node_id, kind=Kind.CODE),
        Fact(name="directory_id", title="directory id", value=directory_id, kind=Kind.CODE),
        Fact(
            name="version",
            title="meta.properties version",
            value=None if meta is None else meta.version,
            kind=Kind.CODE,
            help="0 with ZooKeeper, 1 with KRaft",
        ),
        Fact(name="written_at", title="meta.properties written", value=None if meta is None else meta.written_at),
    ]


def _marker_facts(log_dir: LogDir) -> list[Fact]:
    marker = CleanShutdownFile(log_dir.fs, log_dir.path)
    try:
        stat: FileStat | None = log_dir.fs.stat(marker.path)
        epoch = marker.read()
    except TidelogError:
        stat, epoch = None, None
    return [
        Fact(
            name="shutdown_at",
            title="clean shutdown marker",
            value=None if stat is None else stat.mtime_ms,
            kind=Kind.TIME,
            help="The time of the file .kafka_cleanshutdown",
        ),
        Fact(
            name="broker_epoch",
            value=epoch,
            kind=Kind.NUMBER,
            help="The epoch of the run that ended with a clean shutdown, from the marker",
        ),
    ]


def _condition(state: DirectoryState) -> str:
    match state.condition:
        case DirectoryCondition.HELD:
            return "none: a process runs"
        case DirectoryCondition.CLEAN:
            return "clean"
        case DirectoryCondition.UNCLEAN:
            return "unclean"


def checkpoints_section(
    log_dir: LogDir,
    state: DirectoryState,
    names: Sequence[str],
    cleaned: Mapping[TopicPartition, int],
    cleaner_error: TidelogError | None,
    *,
    now_ms: int,
) -> Section:
    """Return the checkpoint files with their age, and the entries that have no log."""
    known = {name: (read.stat, read.offsets, read.warning) for name, read in state.checkpoints.items()}
    cleaner_warning = None if cleaner_error is None else f"{cleaner_error}; treated as empty"
    known[CLEANER_CHECKPOINT] = (_stat(log_dir, CLEANER_CHECKPOINT), cleaned, cleaner_warning)
    rows = [_checkpoint_row(name, *known[name], frozenset(names), now_ms) for name in _CHECKPOINTS]
    return Section(
        name="checkpoints",
        title="Checkpoints",
        text="A broker writes them every few seconds or minutes, so that they lag behind the logs after a crash.",
        table=Table(
            columns=[
                Column(name="file", kind=Kind.CODE),
                Column(name="written", kind=Kind.TIME),
                Column(name="age", kind=Kind.DURATION),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="entries", kind=Kind.NUMBER),
                Column(name="without_log", kind=Kind.NUMBER, help="Entries of partitions without a directory here"),
                Column(name="meaning"),
                Column(name="problem"),
            ],
            rows=rows,
        ),
    )


def _checkpoint_row(
    name: str,
    stat: FileStat | None,
    offsets: Mapping[TopicPartition, int],
    warning: str | None,
    names: frozenset[str],
    now_ms: int,
) -> Row:
    return {
        "file": name,
        "written": None if stat is None else stat.mtime_ms,
        "age": None if stat is None else now_ms - stat.mtime_ms,
        "bytes": None if stat is None else stat.size,
        "entries": len(offsets) if stat is not None and warning is None else None,
        "without_log": sum(partition.directory_name not in names for partition in offsets) if offsets else None,
        "meaning": _CHECKPOINTS[name],
        "problem": "missing" if stat is None and warning is None else warning,
    }


def _stat(log_dir: LogDir, name: str) -> FileStat | None:
    try:
        return log_dir.fs.stat(log_dir.path / name)
    except StorageError:
        return None


def files_section(request: PageRequest, log_dir: LogDir) -> Section:
    """Return all names in the directory that are not those of partitions' directories."""
    logs = {name for name, _ in log_dir.directories()}
    names = [name for name in log_dir.fs.list_names(log_dir.path) if name not in logs]
    shown, paging = request.query.paged("files", names, keys={"name": lambda name: name}, sort="name")
    return Section(
        name="files",
        title="Files next to the logs",
        table=Table(
            columns=[
                Column(name="name", kind=Kind.CODE),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="modified", kind=Kind.TIME),
                Column(name="meaning"),
            ],
            rows=[_file_row(log_dir, name) for name in shown],
            paging=paging,
            empty="There are no other files.",
        ),
    )


def _file_row(log_dir: LogDir, name: str) -> Row:
    stat = _stat(log_dir, name)
    return {
        "name": name,
        "bytes": None if stat is None or stat.is_dir else stat.size,
        "modified": None if stat is None else stat.mtime_ms,
        "meaning": _meaning(name, is_dir=stat is not None and stat.is_dir),
    }


def _meaning(name: str, *, is_dir: bool) -> str:
    known = _KNOWN_FILES.get(name)
    if known is not None:
        return known
    if is_dir:
        return "a directory that is no log: a broker refuses to start"
    if name.endswith(TEMPORARY_SUFFIX):
        return "an unfinished write: the file was never renamed"
    if name.startswith(PREFIX):
        return "staged records of tidelog's Spark sink"
    return "not a file of Kafka: brokers ignore it"
