"""Builder of partitions with a segment whose offsets exceed its index's range, as Kafka before 2.0 left them."""

from __future__ import annotations

from pathlib import Path

from log_maker import data, marker, plain, write_segment

REACH = 2**31 - 1
"""The largest offset above its base that a segment can hold."""
OVERFLOWED, LAST = 100, 100 + 2 * REACH + 10
LOW = [plain(OVERFLOWED), plain(OVERFLOWED + 10, 1), plain(OVERFLOWED + REACH, 1)]
MIDDLE = [plain(OVERFLOWED + REACH + 1), plain(OVERFLOWED + REACH + 40), plain(OVERFLOWED + 2 * REACH - 9)]
HIGH = [plain(OVERFLOWED + 2 * REACH + 2, 3)]
PIECES = {OVERFLOWED: LOW, OVERFLOWED + REACH + 1: MIDDLE, OVERFLOWED + 2 * REACH + 2: HIGH}


def three_pieces(directory: Path) -> Path:
    """Write three segments. The middle one must split into three."""
    write_segment(directory, 0, [plain(10 * number) for number in range(10)])
    write_overflowed(directory, OVERFLOWED, [*LOW, *MIDDLE, *HIGH])
    write_segment(directory, LAST, [plain(LAST), plain(LAST + 10)])
    return with_epoch(directory)


def without_index(directory: Path) -> Path:
    three_pieces(directory)
    (directory / f"{OVERFLOWED:020d}.index").unlink()
    return directory


def first_record_late(directory: Path) -> Path:
    """Write a segment without its first records, so that the first piece's name differs from the segment's."""
    write_segment(directory, 0, [plain(0)])
    write_overflowed(directory, 50, [*LOW, *MIDDLE, *HIGH])
    write_segment(directory, LAST, [plain(LAST)])
    return with_epoch(directory)


def with_transactions(directory: Path) -> Path:
    """Write a segment with an aborted transaction in each piece, and one transaction that spans both."""
    far = OVERFLOWED + REACH + 5
    write_segment(directory, 0, [plain(0)])
    low = [data(100, 3), data(103, 1, producer_id=9), marker(104, False)]
    high = [data(far, 2), marker(far + 2, False), marker(far + 3, False, producer_id=9), plain(far + 4, 1)]
    write_overflowed(directory, OVERFLOWED, low + high)
    write_segment(directory, LAST, [plain(LAST)])
    return with_epoch(directory)


def last_segment(directory: Path) -> Path:
    write_overflowed(directory, 0, [plain(0), plain(REACH + 1), plain(REACH + 50)])
    return with_epoch(directory)


def write_overflowed(directory: Path, base: int, batches: list[bytes]) -> Path:
    """Write the ``.log``. Its indexes exist, but are empty."""
    directory.mkdir(exist_ok=True)
    log = directory / f"{base:020d}.log"
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).touch()
    log.write_bytes(b"".join(batches))
    return log


def with_epoch(directory: Path) -> Path:
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return directory
