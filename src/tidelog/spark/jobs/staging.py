"""Directories in which tasks write what the driver swaps in: beside the partitions, named as deleted ones.

A broker removes them when it starts, so whatever is left of a job that was killed is rubbish. Each attempt of a task
has one of its own, so that two of them never write the same file.

Called by: tasks (``new_staging``), and the driver, which holds the log directory's lock.
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
    """The first half of the unique ids of a job's directories."""
    return uuid.uuid4().hex[:_HALF]


def new_staging(log_dir: Path, partition: TopicPartition, job_id: str) -> Path:
    """A path that is not there yet."""
    unique_id = job_id + uuid.uuid4().hex[:_HALF]
    return log_dir / str(PartitionDirectoryName.of(partition, DirectoryPurpose.DELETE, unique_id))


def remove_staging(log_dir: Path, job_id: str) -> None:
    """All that the job left."""
    for name in LOCAL.list_names(log_dir):
        if f".{job_id}" in name and name.endswith(DirectoryPurpose.DELETE.value):
            remove_tree(LOCAL, log_dir / name)
