"""The calls that a disk counts, and the loss of power that ends them. Values."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FILE_CALLS = frozenset({"size", "pread", "map", "pwrite", "truncate", "allocate", "sync"})
"""Of an open file."""
PATH_CALLS = frozenset(
    {"open", "open_to_write", "create", "list_names", "list_directories", "list_sizes", "stat", "exists", "rename"}
    | {"set_mtime", "remove", "make_dir", "remove_dir", "sync_dir", "lock", "lock_holder"}
)
"""``open_to_write`` is the opening of a file that is there, ``create`` what becomes of one that is not."""
CHANGING_CALLS = frozenset(
    {"create", "pwrite", "truncate", "allocate", "sync", "rename", "set_mtime", "remove"}
    | {"make_dir", "remove_dir", "sync_dir"}
)
"""These are counted, as far as they change anything."""
ALL_CALLS = FILE_CALLS | PATH_CALLS


class DiskCall(NamedTuple):
    """A changing one; ``number`` counts from 0."""

    number: int
    name: str
    path: Path

    def __str__(self) -> str:
        return f"call {self.number}: {self.name} of {self.path}"


class PowerLoss(BaseException):
    """The disk's power is gone, for this call and all that follow.

    Neither an error nor an ``Exception``, so that nothing that deals with errors of the disk catches it and goes on: a
    program whose machine has lost its power does nothing any more.
    """
