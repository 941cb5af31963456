"""Directories where tasks write files that the driver swaps in, named like deleted partitions.

They lie next to the partitions. A broker removes them when it starts, so the files that a killed job leaves are
harmless. Each attempt of a task has its own directory, so that two attempts never write the same file. Only the holder
of the log directory's lock may remove them.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.directory_copy import remove_tree
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
