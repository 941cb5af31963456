"""The swap of a log that a task wrote into its place in the log directory.

====  =============================================  ==================================================================
step  action                                         a crash after it leaves
====  =============================================  ==================================================================
1     moves an empty log of the name to ``staging``  no log of the name, as before its creation
2     renames the staged log to its place            the complete log; no checkpoint has it, so it is recovered from its
                                                     beginning and found complete
3     notes it for the checkpoints                   the same, until they are written
====  =============================================  ==================================================================

The driver runs it while it holds the directory and has marked it open.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.spark.jobs.staging import new_staging
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.directory.log_directory import LogDirectory


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
