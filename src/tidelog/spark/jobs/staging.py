"""Directories where tasks write files that the driver swaps in, named like deleted partitions.

They lie next to the partitions. A broker removes them when it starts, so the files that a killed job leaves are
harmless. Each attempt of a task has its own directory, so that two attempts never write the same file. Only the holder
of the log directory's lock may remove them.

The driver swaps a log in (``swap_in``) while it holds the directory and has marked it open:

====  =============================================  ==================================================================
step  action                                         a crash after it leaves
====  =============================================  ==================================================================
1     moves an empty log of the name to ``staging``  no log of the name, as before its creation
2     renames the staged log to its place            the complete log; no checkpoint has it, so it is recovered from its
                                                     beginning and found complete
3     notes it for the checkpoints                   the same, until they are written
====  =============================================  ==================================================================
"""

from __future__ import annotations

import uuid
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.directory.unfinished_directory import remove_tree
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

_HALF = 16


def new_job_id() -> str:
    """Return the first half of the unique ids in a job's directory names."""
    return uuid.uuid4().hex[:_HALF]


def new_staging(log_dir: Path, partition: TopicPartition, job_id: str) -> Path:
    """Return a path that does not exist yet."""
    unique_id = job_id + uuid.uuid4().hex[:_HALF]
    return log_dir / str(PartitionDirectoryName.of(partition, DirectoryPurpose.DELETE, unique_id))


def remove_staging(log_dir: Path, job_id: str) -> None:
    """Remove all directories of the job."""
    for name in LOCAL.list_names(log_dir):
        if f".{job_id}" in name and name.endswith(DirectoryPurpose.DELETE.value):
            remove_tree(LOCAL, log_dir / name)


def swap_in(
    log_directory: LogDirectory, partition: TopicPartition, staged: Path, *, end_offset: int, job_id: str
) -> None:
    """Swap in ``staged``, a complete log on disk. An existing log must be empty, and is left for ``remove_staging``."""
    place = log_directory.path / partition.directory_name
    if LOCAL.exists(place):
        LOCAL.rename(place, new_staging(log_directory.path, partition, job_id))
    LOCAL.rename(staged, place)
    LOCAL.sync_dir(log_directory.path)
    log_directory.adopt(partition, end_offset)
