"""Random partition directories: producers, transactions, epochs, and damage that loading must repair."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from log_maker import batch, data, marker, write_segment
from overflowed_log import REACH


def random_batches(chance: random.Random, count: int) -> list[tuple[int, bytes]]:
    """Return batches, each with the offset that follows it."""
    made: list[tuple[int, bytes]] = []
    offset, epoch = 0, 0
    for _ in range(count):
        epoch += chance.random() < 0.03
        producer = chance.randrange(4)
        match chance.randrange(5):
            case 0:
                content, records = marker(offset, chance.random() < 0.5, producer_id=producer), 1
            case 1 | 2:
                content, records = data(offset, 2, producer_id=producer), 2
            case _:
                content, records = batch(offset, [b"x"], epoch=epoch, producer_id=10 + producer), 1
        offset += records
        made.append((offset, content))
    return made


def random_partition(directory: Path, chance: random.Random) -> dict[str, Any]:
    """Write a partition and return keyword arguments for its loading."""
    bases, offset = _write_segments(directory, chance)
    for base in bases:
        if chance.random() < 0.1:
            (directory / f"{base:020d}{chance.choice(['.index', '.timeindex'])}").unlink()
    accident = chance.randrange(5)
    if accident == 0:
        _flip(directory / f"{chance.choice(bases):020d}.log", chance)
    elif accident == 1:
        with (directory / f"{bases[-1]:020d}.log").open("ab") as log:
            log.write(chance.randbytes(50))
    elif accident == 2 and len(bases) > 3:
        _swap(directory, bases[:2])
    for name in (f"{offset + 50:020d}.index", f"{bases[0]:020d}.log.deleted", f"{offset + 90:020d}.log.cleaned"):
        if chance.random() < 0.2:
            (directory / name).write_bytes(bytes(24))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    request: dict[str, Any] = {"clean_shutdown": chance.random() < 0.2}
    request["recovery_point"] = chance.choice([0, chance.choice(bases), offset // 2])
    request["log_start_offset"] = chance.choice([0, 0, 0, offset // 3, offset + 1000])
    return request


def _write_segments(directory: Path, chance: random.Random) -> tuple[list[int], int]:
    """Write segments, perhaps with a gap too wide for one segment. Return their base offsets and the end offset."""
    batches = random_batches(chance, chance.randrange(20, 80))
    gap_at = chance.randrange(len(batches)) if chance.random() < 0.3 else len(batches)
    bases: list[int] = []
    at = offset = 0
    while at < len(batches):
        part = [
            _moved(content, REACH + 2) if row >= gap_at else content
            for row, (_, content) in enumerate(batches[at : at + chance.randrange(3, 15)], at)
        ]
        base = int.from_bytes(part[0][:8], "big")
        bases.append(base)
        if part[-1][:8] > (base + REACH).to_bytes(8, "big"):
            (directory / f"{base:020d}.log").write_bytes(b"".join(part))
        else:
            write_segment(directory, base, part)
        at += len(part)
        offset = batches[at - 1][0] + (REACH + 2 if at > gap_at else 0)
    for base in bases:
        for kind in (".index", ".timeindex"):
            (directory / f"{base:020d}{kind}").touch()
    return bases, offset


def _moved(content: bytes, by: int) -> bytes:
    """Move the batch's base offset, which its CRC does not cover."""
    return (int.from_bytes(content[:8], "big") + by).to_bytes(8, "big") + content[8:]


def _flip(log: Path, chance: random.Random) -> None:
    content = bytearray(log.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    log.write_bytes(content)


def _swap(directory: Path, bases: list[int]) -> None:
    """Write a complete ``.swap`` file that is about to replace the segments."""
    together = b"".join((directory / f"{base:020d}.log").read_bytes() for base in bases)
    (directory / f"{bases[0]:020d}.log.swap").write_bytes(together)
