"""The search for the batch that holds an offset, header by header, compared with the table of all batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from legacy_messages import Message, encode_set
from log_maker import batch
from tidelog.kernel import scan_batches
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_read import BatchPosition, find_batch


def v2() -> bytes:
    """Return small batches, a batch larger than one read, and a gap in the offsets."""
    sizes = [1, 3, 1, 200, 2, 1]
    data, offset = b"", 10
    for count in sizes:
        data += batch(offset, [b"x" * 60] * count)
        offset += count + (5 if count == 2 else 0)
    return data + b"".join(batch(offset + number, [b""]) for number in range(150))


def old(magic: int) -> bytes:
    return encode_set([Message(number, 5, None, b"v" * (number % 7)) for number in range(10, 400)], magic)


@pytest.mark.parametrize("data", [v2(), old(0), old(1), old(1) + v2()], ids=["v2", "v0", "v1", "mixed"])
def test_every_offset_is_found_where_the_table_has_it(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    table = scan_batches(data)
    with LOCAL.open(path) as file:
        for offset in range(int(table.last_offset.max()) + 2):
            rows = [row for row in table.rows() if row.last_offset >= offset]
            expected = BatchPosition(rows[0].base_offset, rows[0].position, rows[0].size) if rows else None
            assert find_batch(file, 0, len(data), offset) == expected


def test_the_search_begins_and_ends_where_it_is_told_to(tmp_path: Path) -> None:
    first, second = batch(0, [b"a"]), batch(1, [b"b"])
    (tmp_path / "log").write_bytes(first + second)
    with LOCAL.open(tmp_path / "log") as file:
        assert find_batch(file, len(first), len(first + second), 0) == BatchPosition(1, len(first), len(second))
        assert find_batch(file, 0, len(first), 1) is None
        assert find_batch(file, 0, len(first + second) - 1, 1) is None  # the second batch is incomplete


@pytest.mark.parametrize(
    "tail", [b"", b"\0" * 100, b"\0" * 8 + b"\xff" * 100, batch(1, [b"b"])[:40], batch(1, [b"b"])[:20]]
)
def test_what_is_no_batch_ends_it(tail: bytes, tmp_path: Path) -> None:
    data = batch(0, [b"a"]) + tail
    (tmp_path / "log").write_bytes(data)
    with LOCAL.open(tmp_path / "log") as file:
        assert find_batch(file, 0, len(data), 0) is not None
        assert find_batch(file, 0, len(data), 1) is None
