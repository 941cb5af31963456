"""Every partition that a real broker wrote, read from its .log files alone, gives the manifest's counts and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typing_extensions import Unpack

from golden_sets import SETS, manifest
from kernel.twins import DecoderLimits
from tidelog.kernel import ColumnDecoder, RecordColumns, Stop, scan_batches
from tidelog.model import Record
from tidelog.record.decode import decode_columns, iter_records

PARTITIONS = [
    (set_name, partition)
    for set_name in SETS
    for partition, levels in manifest(set_name).items()
    if "read_uncommitted" in levels
]


def manifest_line(record: Record) -> bytes:
    def text(field: bytes | None) -> str | None:
        return None if field is None else field.hex()

    headers = [[header.key, text(header.value)] for header in record.headers]
    type_ = record.timestamp_type + 1
    timestamp = record.timestamp if type_ else 0
    fields = [record.offset, type_, timestamp, text(record.key), text(record.value), headers]
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def read_partition(directory: Path, start: int, end: int, **limits: Unpack[DecoderLimits]) -> Iterator[RecordColumns]:
    decoder = ColumnDecoder(start_offset=start, end_offset=end, **limits)
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        table = scan_batches(data)
        assert table.stop is Stop.END
        yield from decode_columns(data, table, decoder, keep=~table.is_control)


@pytest.mark.parametrize("limits", [{}, {"max_rows": 100}, {"max_bytes": 3_000}], ids=str)
@pytest.mark.parametrize(("set_name", "partition"), PARTITIONS)
def test_partition_equals_its_manifest_entry(
    golden: Callable[..., Path], set_name: str, partition: str, limits: dict[str, int]
) -> None:
    expected = manifest(set_name)[partition]["read_uncommitted"]
    digest = hashlib.sha256()
    offsets: list[int] = []
    for columns in read_partition(golden(set_name) / partition, expected["low"], expected["high"], **limits):
        for record in iter_records(columns):
            offsets.append(record.offset)
            digest.update(manifest_line(record))
    assert len(offsets) == expected["count"]
    if offsets:
        assert (offsets[0], offsets[-1]) == (expected["first"], expected["last"])
    assert digest.hexdigest() == expected["sha256"]
