"""The hashed keys of some batches, for an offset map with the same hash."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class HashedKeys(NamedTuple):
    entries: memoryview
    """An entry of 24 bytes per record with a key, in log order: hash (low, high 64 bits) and offset, native order."""
    row_ends: npt.NDArray[np.int64]
    """A row per batch: the number of entries up to its last record."""
    last_offsets: npt.NDArray[np.int64]
    """The last offset of each batch."""
    skips_data: bool
    """True if a batch with data is not wanted, so that its keys are not among the entries. It is also True if a message
    of an old format claims to end below the start, because the messages inside it may contradict it."""
