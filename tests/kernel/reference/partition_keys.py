"""The partition of each key. This is the twin of _partition_keys.pyx."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SEED, _MIXER, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def partition_keys(data: Buffer, offsets: NDArray[np.int32], partitions: int) -> NDArray[np.int32]:
    """Return the partition of each of n keys; key i is ``data[offsets[i]:offsets[i + 1]]``."""
    if partitions < 1 or not len(offsets):
        raise ValueError(f"{len(offsets) - 1} keys for {partitions} partitions")
    view = memoryview(data).cast("B")
    found = []
    for number, (start, end) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= end <= len(view):
            raise ValueError(f"the offsets of key {number} do not lie within the data")
        found.append((murmur2(view[start:end]) & 0x7FFFFFFF) % partitions)
    return np.array(found, np.int32)


def murmur2(data: bytes | memoryview) -> int:
    """Return an unsigned number of 32 bits."""
    mixed = _SEED ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MIXER & _MASK
        mixed = (mixed * _MIXER & _MASK) ^ ((word ^ word >> 24) * _MIXER & _MASK)
    if whole < len(data):
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * _MIXER & _MASK
    mixed = (mixed ^ mixed >> 13) * _MIXER & _MASK
    return mixed ^ mixed >> 15
