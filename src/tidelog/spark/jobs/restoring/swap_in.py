"""Put a log that a task wrote into its place in the log directory.

====  =============================================  ==================================================================
step  what                                           a crash behind it leaves
====  =============================================  ==================================================================
1     an empty log of the name goes to ``staging``   no log of the name, as before it was made
2     the staged log is renamed to its place         all of the log; no checkpoint speaks of it, so it is recovered from
                                                     its beginning, which finds it whole
3     it is noted, for the checkpoints               the same, until they are written
====  =============================================  ==================================================================

Called by: the restore job, on the driver, which holds the directory and has marked it open.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.spark.jobs.staging import new_staging
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.directory.log_directory import LogDirectory


def swap_in(home: LogDirectory, partition: TopicPartition, staged: Path, *, end_offset: int, job_id: str) -> None:
    """``staged``: a whole log, on the disk. What is there already has no record, and is left for ``remove_staging``."""
    place = home.path / partition.directory_name
    if LOCAL.exists(place):
        LOCAL.rename(place, new_staging(home.path, partition, job_id))
    LOCAL.rename(staged, place)
    LOCAL.sync_dir(home.path)
    home.take_in(partition, end_offset)
