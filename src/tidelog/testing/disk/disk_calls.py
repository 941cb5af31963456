"""The calls that a disk counts, and the power loss that ends them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FILE_CALLS = frozenset({"size", "pread", "map", "pwrite", "truncate", "allocate", "sync"})
"""Calls of an open file."""
PATH_CALLS = frozenset(
    {"open", "open_to_write", "create", "list_names", "list_directories", "list_sizes", "stat", "exists", "rename"}
    | {"link", "set_mtime", "remove", "make_dir", "remove_dir", "sync_dir", "lock", "lock_holder"}
)
"""``open_to_write`` opens a file for writing. If the file is missing, ``create`` follows."""
CHANGING_CALLS = frozenset(
    {"create", "pwrite", "truncate", "allocate", "sync", "rename", "set_mtime", "remove"}
    | {"link", "make_dir", "remove_dir", "sync_dir"}
)
"""Calls that are counted if they change anything."""
ALL_CALLS = FILE_CALLS | PATH_CALLS


class DiskCall(NamedTuple):
    """A changing call. ``number`` counts from 0."""

    number: int
    name: str
    path: Path

    def __str__(self) -> str:
        return f"call {self.number}: {self.name} of {self.path}"


class PowerLoss(BaseException):
    """The loss of the disk's power, for this call and all later ones.

    It is not an ``Exception``, so that no handler of disk errors catches it and continues. A program on a machine
    without power does nothing.
    """
