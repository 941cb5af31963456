"""Batches of real brokers are read, encoded again to the same bytes, and equal in both implementations."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from golden_sets import FLIGHTS, FORMATS, KRAFT_SETS, SETS
from kernel.twins import COMPILED, PLAIN, Twin, both, columns_value, table_value
from tidelog.kernel import Stop, scan_batches


def logs(golden: Callable[..., Path], set_name: str, kind: str = "clean") -> list[Path]:
    return sorted(golden(set_name, kind).rglob("*.log"))


@pytest.mark.parametrize("set_name", SETS)
def test_every_segment_is_whole(golden: Callable[..., Path], set_name: str) -> None:
    for path in logs(golden, set_name):
        table = scan_batches(path.read_bytes())
        assert table.stop is Stop.END, path
        assert table.crc_ok.all(), path
        assert table.header_ok.all(), path
        assert table.end_position == path.stat().st_size


def test_both_old_formats_are_there(golden: Callable[..., Path]) -> None:
    magics = {magic for path in logs(golden, FORMATS) for magic in scan_batches(path.read_bytes()).magic.tolist()}
    assert magics == {0, 1}


def test_twins_scan_and_decode_alike(golden: Callable[..., Path]) -> None:
    for path in logs(golden, FLIGHTS) + logs(golden, FORMATS):
        data = path.read_bytes()[:60_000]
        tables = [twin.scan_batches(data) for twin in (COMPILED, PLAIN)]
        assert table_value(tables[0]) == table_value(tables[1])
        wanted = (tables[0].magic == 2) & (tables[0].codec == 0)
        decoders = [twin.ColumnDecoder(sequences=True) for twin in (COMPILED, PLAIN)]
        for decoder in decoders:
            assert decoder.add_batches(data, tables[0], keep=wanted) == len(tables[0])
        assert columns_value(decoders[0].finish()) == columns_value(decoders[1].finish())


@both
def test_encoding_gives_the_brokers_bytes(twin: Twin, golden: Callable[..., Path]) -> None:
    """Each uncompressed batch with create timestamps is compared. Log append time hides the producers' deltas."""
    compared = 0
    paths = [path for set_name in KRAFT_SETS for path in logs(golden, set_name)]
    for _, same_partition in groupby(paths, lambda path: path.parent):
        data = next(same_partition).read_bytes()
        table = scan_batches(data)
        for number, row in enumerate(table.take(slice(0, 40)).rows()):
            if row.attributes & 15 or row.record_count == 0:
                continue
            decoder = COMPILED.ColumnDecoder()
            decoder.add_batches(data, table, number, number + 1)
            payload = twin.encode_payload(
                decoder.finish(), base_offset=row.base_offset, base_timestamp=row.base_timestamp
            )
            sealed = twin.seal_batch(
                payload.data,
                base_offset=row.base_offset,
                last_offset_delta=row.last_offset - row.base_offset,
                record_count=payload.record_count,
                base_timestamp=row.base_timestamp,
                max_timestamp=row.max_timestamp,
                attributes=row.attributes,
                leader_epoch=row.leader_epoch,
                producer_id=row.producer_id,
                producer_epoch=row.producer_epoch,
                base_sequence=row.base_sequence,
            )
            assert sealed == data[row.position : row.position + row.size]
            compared += 1
    assert compared > 250
