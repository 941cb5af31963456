"""The time of the codec alone in a round of a cleaner.

A round decompresses the log twice, to read its keys and to filter it, and compresses the remaining batches once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidelog.record.compression import compress, decompress
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader

HEADER_BYTES = 61
OPENED = 2

_dirty: list[tuple[int, bytes]] = []
_payloads: list[tuple[int, bytes]] = []
"""The codec and bytes of each batch: ``_dirty`` has the log's, compressed, ``_payloads`` the rest, decompressed."""


def prepare(source: str, cleaned: str) -> None:
    _dirty[:] = compressed(Path(source))
    _payloads[:] = [(codec, bytes(decompress(codec, data))) for codec, data in compressed(Path(cleaned))]


def run(_source: str, _cleaned: str) -> tuple[int, int]:
    for _ in range(OPENED):
        for codec, data in _dirty:
            decompress(codec, data)
    for codec, data in _payloads:
        compress(codec, data)
    return sum(len(data) for _, data in _dirty), 0


def finish(*_arguments: str) -> None:
    _dirty.clear()
    _payloads.clear()


def compressed(directory: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the codec and the stored records of each batch of a partition."""
    for path in sorted(directory.glob("*.log")):
        with SegmentReader(LOCAL, directory, int(path.stem)) as reader:
            for buffer, table, base_position in reader.chunks():
                view = memoryview(buffer)
                starts, sizes, codecs = table.position - base_position, table.size, table.codec
                for start, size, codec in zip(starts.tolist(), sizes.tolist(), codecs.tolist(), strict=True):
                    yield codec, bytes(view[start + HEADER_BYTES : start + size])
