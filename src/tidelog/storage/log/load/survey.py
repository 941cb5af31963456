"""The survey of many partition directories, ahead of their loading.

Looking at the files of a small log takes about as long as building its objects. A survey is one compiled call for many
directories, without the GIL: a thread can make it while another one loads the logs of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import FileSystem, LocalFileSystem
from tidelog.storage.log.load.listing import PartitionListing, sort_names

BATCH = 32
_SMALL_FILES = [LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE]


def survey(fs: FileSystem, directories: Sequence[Path], *, index_ends: bool) -> list[PartitionListing | None]:
    """Return the listing of each directory with the contents of its small files, and the ends of its indexes if wanted.

    It is None if the loader has to list the directory itself: it cannot be read, or it is not on this machine.
    """
    if not isinstance(fs, LocalFileSystem):
        return [None] * len(directories)
    surveyed = fs.survey(directories, _SMALL_FILES, index_ends=index_ends)
    return [None if found is None else sort_names(found[0], *found) for found in surveyed]
