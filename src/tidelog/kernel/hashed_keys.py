"""What was read of the keys of some batches, for the offset map whose hash they have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class HashedKeys(NamedTuple):
    entries: memoryview
    """24 bytes a record that has a key, in the order of the log: hash (low and high 64 bits) and offset, as C has
    them."""
    row_ends: npt.NDArray[np.int64]
    """A row a batch: how many entries there are up to its last record."""
    last_offsets: npt.NDArray[np.int64]
    """Of each batch."""
