"""Plain forms of compressed and legacy batches, and the limit of their bytes at one time."""

import numpy as np
import numpy.typing as npt
import pytest
from lz4 import frame
from typing_extensions import Buffer

from legacy_build import MessageFields, build_set
from record.cleaning.dirty_batches import CODECS, batch_of, clean, map_of, record
from tidelog.kernel import scan_batches, seal_batch
from tidelog.kernel.table import BatchTable
from tidelog.model import CorruptRecordError
from tidelog.record.cleaning import opened_batches
from tidelog.record.cleaning.opened_batches import opened_parts


def mixed_log() -> bytes:
    parts = [batch_of(record(number, b"k"), codec=codec) for number, codec in enumerate(CODECS * 3)]
    parts.append(bytes(build_set([MessageFields(5, b"k", b"v")] * 2, magic=1, base_offset=20, codec=3)))
    parts += [batch_of(record(22 + number, b"k"), codec="lz4") for number in range(3)]
    return b"".join(parts)


def opened(data: bytes, wanted: npt.NDArray[np.bool_] | None = None) -> tuple[BatchTable, list[bytes | None]]:
    table = scan_batches(data)
    chosen = np.ones(len(table), np.bool_) if wanted is None else wanted
    rows: list[Buffer | None] = []
    for part in opened_parts(data, table, chosen):
        assert part.rows.start == len(rows)
        count = part.rows.stop - part.rows.start
        rows += [None] * count if part.opened is None else part.opened
        assert len(rows) == part.rows.stop
    assert len(rows) == len(table)
    return table, [None if one is None else bytes(one) for one in rows]


@pytest.mark.parametrize("part_bytes", [1, 30, 4 << 20])
def test_each_row_has_what_stands_for_it(monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(opened_batches, "PART_BYTES", part_bytes)
    table, rows = opened(mixed_log())
    records = batch_of(record(0, b"k"))[61:]
    for row, one in zip(table.rows(), rows, strict=True):
        if row.magic == 1:
            assert one == batch_of(record(20, b"k", b"v", 5), record(21, b"k", b"v", 5))
        else:
            assert one == (records if row.attributes else None)


def test_rows_that_are_not_wanted_are_not_opened() -> None:
    data = mixed_log()
    wanted = np.arange(len(scan_batches(data))) % 2 == 0
    _, rows = opened(data, wanted)
    _, all_rows = opened(data)
    assert rows == [row if chosen else None for row, chosen in zip(all_rows, wanted, strict=True)]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batches_that_compress_well_come_in_parts(codec: str) -> None:
    data = b"".join(batch_of(record(number, b"k", bytes(1 << 20)), codec=codec) for number in range(10))
    table = scan_batches(data)
    sizes = [len(opened or ()) for _, opened in opened_parts(data, table, np.ones(10, np.bool_))]
    assert sizes == [4, 4, 2]


@pytest.mark.parametrize("part_bytes", [1, 200])
def test_a_clean_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    data = b"".join(
        batch_of(*[record(10 * number + n, b"%d" % (n * number % 17)) for n in range(10)], codec=CODECS[number % 5])
        for number in range(20)
    )
    whole = clean(data)
    assert 0 < whole.stats.records_kept < 200
    monkeypatch.setattr(opened_batches, "PART_BYTES", part_bytes)
    in_parts = clean(data)
    assert bytes(in_parts.data) == bytes(whole.data)
    assert in_parts.stats == whole.stats
    assert len(map_of(data)) == 17


def test_lz4_frames_that_the_kernel_leaves_are_the_librarys() -> None:
    records = batch_of(record(0, b"k"))[61:]
    odd = frame.compress(records, store_size=True, content_checksum=True)
    fields = {"last_offset_delta": 0, "record_count": 1, "base_timestamp": 0, "max_timestamp": 0, "attributes": 3}
    usual = batch_of(record(0, b"k"), codec="lz4")
    _, rows = opened(usual + bytes(seal_batch(odd, base_offset=1, **fields)) + usual)
    assert rows == [records] * 3
    damaged = bytes(seal_batch(odd[:-9], base_offset=1, **fields))
    with pytest.raises(CorruptRecordError, match="lz4") as caught:
        opened(usual + damaged)
    assert (caught.value.position, caught.value.offset) == (len(usual), 1)


def test_no_batches() -> None:
    data = batch_of(record(0, b"k"), codec="lz4")[:70]
    table, rows = opened(data)
    assert (len(table), rows) == (0, [])
