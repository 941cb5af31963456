"""Replace a whole small file so that a crash leaves the old or the new contents, never a mixture.

Steps: write ``NAME.tmp``, sync it, rename it over NAME, sync the directory. A crash before the rename leaves the old
file and a ``.tmp`` beside it (whoever loads the directory removes it, and the next write overwrites it). A link of that
name is removed first: nobody's file but the directory's is written.
Called by: checkpoints, leader epochs, producer snapshots, partition metadata. Source: Kafka's ``CheckpointFile``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.storage.fs.interface import FileSystem

if TYPE_CHECKING:
    from typing_extensions import Buffer

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(fs: FileSystem, path: Path, data: Buffer, *, syncs_name: bool = True) -> None:
    """Write ``data`` as the whole contents of ``path``; durable on return. StorageError if any step fails.

    ``syncs_name`` False leaves the last step to who syncs the directory anyway, and is done with it only then.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    if temporary.is_symlink():  # of this machine's file system: no other has links
        fs.remove(temporary)
    with fs.open(temporary, create=True) as file:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    fs.rename(temporary, path)
    if syncs_name:
        fs.sync_dir(path.parent)
