"""Damage to a partition's files before a broker starts. Each function does the same to every copy of a directory.

The metadata log and the transaction coordinator's log are spared. A broker that lost part of those writes them again,
so a comparison would be impossible.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
SPARED = ("__cluster_metadata", "__transaction_state")

BatchSpan = tuple[int, int]
"""The start and end position of a batch in its file."""

Damage = Callable[[Path], None]
"""A function that damages one partition directory."""


def partitions(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.is_dir() and not path.name.startswith(SPARED):
            yield path


def deal_out(directory: Path, kinds: Sequence[Damage], *, shift: int = 0) -> None:
    """Apply one of ``kinds`` to each partition, in turn. Another ``shift`` distributes them differently."""
    for number, partition in enumerate(partitions(directory)):
        kinds[(number + shift) % len(kinds)](partition)


def reset_recovery_points(directory: Path) -> None:
    """Set every partition's recovery point to 0, so that nothing counts as flushed."""
    path = directory / "recovery-point-offset-checkpoint"
    if not path.stat().st_size:
        return  # the broker was killed before it wrote a recovery point
    version, count, *entries = path.read_text().splitlines()
    path.write_text("\n".join([version, count, *(f"{entry.rsplit(' ', 1)[0]} 0" for entry in entries)]) + "\n")


def delete_indexes(partition: Path) -> None:
    for file in partition.iterdir():
        if file.suffix in INDEX_SUFFIXES:
            file.unlink()


def randomize_indexes(partition: Path) -> None:
    """Fill every index with random bytes of the same size. A broker survives the ``.txnindex`` files (see below)."""
    for file in partition.iterdir():
        if file.suffix in INDEX_SUFFIXES:
            file.write_bytes(_noise(file))
            if file.suffix == ".txnindex":
                _let_the_broker_live(file)


def randomize_transaction_indexes(partition: Path) -> None:
    """Fill every ``.txnindex`` with random bytes and a version above 0. A broker refuses to start on that version."""
    for file in partition.glob("*.txnindex"):
        if file.stat().st_size:
            file.write_bytes(b"\x01" + _noise(file)[1:])


def _let_the_broker_live(file: Path) -> None:
    """Make the first entry's last offset negative, which is corrupt to Kafka. A version other than 0 would be fatal."""
    data = bytearray(file.read_bytes())
    if data:
        data[0:2] = bytes(2)
        data[18] |= 0x80
        file.write_bytes(data)


def _noise(file: Path) -> bytes:
    seed = zlib.crc32(f"{file.parent.name}/{file.name}".encode())
    return random.Random(seed).randbytes(file.stat().st_size)


def batch_spans(log: Path) -> list[BatchSpan]:
    data = log.read_bytes()
    spans, position = [], 0
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        spans.append((position, position + 12 + length))
        position += 12 + length
    return spans


def last_log(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def cut_last_segment(choose: Callable[[list[BatchSpan]], int]) -> Damage:
    """Truncate the last segment at the position that ``choose`` picks from its batches."""

    def cut(partition: Path) -> None:
        log = last_log(partition)
        if spans := batch_spans(log):
            with log.open("r+b") as file:
                file.truncate(choose(spans))

    return cut


CUTS: tuple[Damage, ...] = (
    cut_last_segment(lambda spans: (spans[-1][0] + spans[-1][1]) // 2),  # in the records of the last batch
    cut_last_segment(lambda spans: spans[-1][0] + 40),  # in its header
    cut_last_segment(lambda spans: spans[-1][0] + 9),  # in its length field
    cut_last_segment(lambda spans: spans[len(spans) // 2][1] - 7),  # near the end of the middle batch
    cut_last_segment(lambda spans: spans[len(spans) // 2][1]),  # just after it
    cut_last_segment(lambda spans: spans[0][1] - 1),  # in the first batch
    cut_last_segment(lambda spans: 0),  # before it
)


def append_zeros(partition: Path) -> None:
    """Append zeros after the last batch, as a file system may do after a power failure."""
    with last_log(partition).open("ab") as file:
        file.write(bytes(4100))


def append_noise(partition: Path) -> None:
    with last_log(partition).open("ab") as file:
        file.write(random.Random(partition.name).randbytes(500))


def flip_in_middle_segment(partition: Path) -> None:
    """Flip a bit of a record in the middle segment. Recovery truncates there and deletes later segments."""
    logs = sorted(partition.glob("*.log"))
    log = logs[len(logs) // 2]
    if spans := batch_spans(log):
        position = spans[len(spans) // 2][1] - 3
        with log.open("r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 0x10]))


def delete_snapshots(partition: Path) -> None:
    for file in partition.glob("*.snapshot"):
        file.unlink()


def randomize_snapshots(partition: Path) -> None:
    for file in partition.glob("*.snapshot"):
        file.write_bytes(_noise(file))


def leave_temporary_files(partition: Path) -> None:
    """Write leftover files of an interrupted deletion, cleaning or checkpoint, and an index without its log."""
    log = min(partition.glob("*.log"))
    base = int(log.stem)
    (partition / f"{base:020d}.log.cleaned").write_bytes(log.read_bytes()[:100])
    (partition / f"{base:020d}.index.cleaned").write_bytes(b"")
    (partition / f"{base + 7:020d}.index").write_bytes(bytes(8))
    (partition / f"{base + 9:020d}.log.deleted").write_bytes(b"gone")
    (partition / f"{base + 9:020d}.timeindex.deleted").write_bytes(b"")
    (partition / f"{base + 9:020d}.snapshot.deleted").write_bytes(b"")
    (partition / "leader-epoch-checkpoint.tmp").write_text("0\n")


def leave_swap_files(partition: Path) -> None:
    """Rename the first segment's files to ``.swap``, as a cleaning that was interrupted at its swap."""
    log = min(partition.glob("*.log"))
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        file = log.with_suffix(suffix)
        if file.exists():
            file.rename(file.with_name(file.name + ".swap"))


ACCIDENTS: tuple[Damage, ...] = (
    append_zeros,
    flip_in_middle_segment,
    delete_snapshots,
    leave_temporary_files,
    randomize_snapshots,
    leave_swap_files,
    append_noise,
)
