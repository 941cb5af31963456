"""The log directory of row web: very many segments, and a log of very large ones.

The many partitions are hard links to one template, so 300,000 files take seconds to make and little space: pages only
read. The large log repeats one batch with other base offsets, which its CRC does not cover. It is made once, in the
git-ignored .cache/benchmarks.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.datasets import CACHE
from log_maker import batch, plain, write_segment
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

LARGE: Final = "large-0"
"""The log with large segments."""
_PARTITIONS_A_TOPIC: Final = 100
_SEGMENTS: Final = 10
_RECORDS: Final = 20
_LARGE_RECORDS: Final = 600
_VALUE_BYTES: Final = 100
_VERSION: Final = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebData:
    """The directory, and the numbers of its contents."""

    directory: Path
    partitions: int
    large_segments: int
    large_bytes: int

    @property
    def segments(self) -> int:
        return self.partitions * _SEGMENTS + self.large_segments


def web_data(scale: float) -> WebData:
    """Return the directory, and make it on first use."""
    partitions = max(_PARTITIONS_A_TOPIC, round(10_000 * scale))
    large_bytes = max(1_000_000, round(1_000_000_000 * scale))
    directory = CACHE / f"web-{partitions}"
    data = WebData(directory=directory, partitions=partitions, large_segments=2, large_bytes=large_bytes)
    stamp = directory.with_suffix(".stamp")
    if not stamp.exists() or stamp.read_text() != _VERSION:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _make_many(data)
        _make_large(data)
        (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=benchmark\n")
        CleanShutdownFile(LOCAL, directory).write(0)
        stamp.write_text(_VERSION)
    return data


def _make_many(data: WebData) -> None:
    first = data.directory / "topic-000-0"
    first.mkdir()
    for number in range(_SEGMENTS):
        write_segment(first, number * _RECORDS, [plain(number * _RECORDS, _RECORDS)])
    files = sorted(first.iterdir())
    for number in range(1, data.partitions):
        topic, partition = divmod(number, _PARTITIONS_A_TOPIC)
        directory = data.directory / f"topic-{topic:03d}-{partition}"
        directory.mkdir()
        for file in files:
            os.link(file, directory / file.name)


def _make_large(data: WebData) -> None:
    directory = data.directory / LARGE
    directory.mkdir()
    one = bytearray(batch(0, [b"%0*d" % (_VALUE_BYTES, number) for number in range(_LARGE_RECORDS)]))
    timestamp = int.from_bytes(one[35:43], "big")  # the batch's greatest one
    count, base = data.large_bytes // len(one), 0
    for _ in range(data.large_segments):
        index, times = bytearray(), bytearray()
        with (directory / f"{base:020d}.log").open("wb") as log:
            for number in range(count):
                offset = base + number * _LARGE_RECORDS
                one[:8] = struct.pack(">q", offset)
                log.write(one)
                if number:
                    index += struct.pack(">ii", offset + _LARGE_RECORDS - 1 - base, number * len(one))
        times += struct.pack(">qi", timestamp, _LARGE_RECORDS - 1)
        (directory / f"{base:020d}.index").write_bytes(index)
        (directory / f"{base:020d}.timeindex").write_bytes(times)
        base += count * _LARGE_RECORDS
    write_segment(directory, base, [plain(base)])
